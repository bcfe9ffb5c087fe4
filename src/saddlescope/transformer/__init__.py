"""The non-linear models: small decoders, their training data, and how they are measured.

The dataset of a `fit`, over (seed, step, …):

- `loss`, `token_loss` [position]: on held-out sequences, in nats.
- `in_context_score`: loss late in the context minus loss early in it, which is `early_loss`.
- `prefix_matching` [layer, head]: on repeated random tokens.
- `train_loss`, `train_accuracy`, `test_loss`, `test_accuracy`: modular arithmetic only.
- `embedding_power` [frequency]: modular arithmetic only; shares of W_E's power.
- `qk_effective_rank`, `ov_effective_rank` [layer, head]: of each circuit.
- `qk_marginal_rank`, `ov_marginal_rank` [layer, head]: without the leading singular value.
- `qk_distance`, `ov_distance` [layer, head]: subspace distance to the last step.
- `qk_drift`, `ov_drift` [layer, head]: subspace distance from the previous record.
- `embedding_distance`: the distance of W_E's d_head leading directions.
- `copying` [layer, head]: whether the head raises the logits of what it attends to.
- `norm` [weight]: Frobenius.
- `diverged`, without a step: whether the final weights of a seed are not finite.
"""

from saddlescope.transformer._decoder import Activation, Decoder, DecoderShape, Positions
from saddlescope.transformer._decoder_file import load_decoder, save_decoder
from saddlescope.transformer._evaluation import (
    AbstractEvaluation,
    ArithmeticEvaluation,
    LanguageEvaluation,
)
from saddlescope.transformer._grokking import (
    GrokkingExperiment,
    generalisation_step,
    memorisation_step,
)
from saddlescope.transformer._induction import Corpus, InductionExperiment, emergence
from saddlescope.transformer._metrics import load_metrics, save_metrics
from saddlescope.transformer._optimiser import AdamW
from saddlescope.transformer._training import Fit, fit
from saddlescope.transformer.sources import (
    AbstractSource,
    BigramTriggers,
    BytePairs,
    Encoding,
    ModularArithmetic,
    Operation,
    RepeatedTokens,
    Text,
)

__all__ = [
    "AbstractEvaluation",
    "AbstractSource",
    "Activation",
    "AdamW",
    "ArithmeticEvaluation",
    "BigramTriggers",
    "BytePairs",
    "Corpus",
    "Decoder",
    "DecoderShape",
    "Encoding",
    "Fit",
    "GrokkingExperiment",
    "InductionExperiment",
    "LanguageEvaluation",
    "ModularArithmetic",
    "Operation",
    "Positions",
    "RepeatedTokens",
    "Text",
    "emergence",
    "fit",
    "generalisation_step",
    "load_decoder",
    "load_metrics",
    "memorisation_step",
    "save_decoder",
    "save_metrics",
]
