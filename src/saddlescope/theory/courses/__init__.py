"""What happens over time: merged attention, one head, alignment, all blocks, lazy, batches."""
