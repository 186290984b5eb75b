from __future__ import annotations

import pytest
import torch

from trainers.engine.lora import Adapter, LoraConfig
from trainers.engine.optimizer import AdamParams, adamw_step
from trainers.errors import RunError


def adapter() -> Adapter:
    return Adapter(LoraConfig(rank=3, seed=1), {"x": (4, 5), "y": (2, 6)}, torch.device("cpu"))


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_it_steps_as_torch_adamw(clip):
    ours = adapter()
    theirs = torch.nn.Parameter(ours.values.clone())
    torchs = torch.optim.AdamW([theirs], lr=0.02, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    params = AdamParams(0.02, 0.9, 0.95, 1e-8, 0.1, clip)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        gradient = torch.randn(ours.values.shape, generator=generator)
        ours.gradient.copy_(gradient)
        theirs.grad = gradient.clone()
        if clip:
            torch.nn.utils.clip_grad_norm_([theirs], clip)
        norm = adamw_step(ours, params)["grad_norm"]
        torchs.step()
        assert norm == pytest.approx(float(gradient.norm()), rel=1e-6)
        torch.testing.assert_close(ours.values, theirs.detach(), rtol=1e-5, atol=1e-7)
    assert not ours.gradient.any()


def test_a_gradient_that_is_not_finite_changes_nothing():
    ours = adapter()
    before = ours.values.clone()
    ours.gradient[3] = float("inf")
    with pytest.raises(RunError) as caught:
        adamw_step(ours, AdamParams())
    assert caught.value.kind == "not_finite"
    assert torch.equal(ours.values, before) and ours.steps == 0 and not ours.gradient.any()


def test_a_new_adapter_depends_on_its_seed_and_changes_nothing():
    one, same, other = (Adapter(LoraConfig(rank=3, seed=s), {"x": (4, 5)}, torch.device("cpu")) for s in (1, 1, 2))
    assert torch.equal(one.values, same.values) and not torch.equal(one.values, other.values)
    down, up = one.factors["x"]
    assert down.abs().max() <= 5**-0.5 and not up.any()
