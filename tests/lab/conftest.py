"""One lab for all tests of the room, without what it would compile beforehand."""

from collections.abc import Iterator

import pytest
from tests.lab.talking import SETTING, Talk

from saddlescope.lab.server import Lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    served = Lab(port=0, warm_up=False)
    # The one program that most tests need.
    with Talk(served) as talk:
        talk.ask("run", SETTING)
        talk.answers("run")
    yield served
    served.close()
