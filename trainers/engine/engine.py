"""The engine: one base model on one device, with any number of adapters, and the primitives recipes are written on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from trainers.engine.attention import ATTENTION_NAME, TreeAttention, attending
from trainers.engine.base_models import check_model_folder
from trainers.engine.batch import Datum, MicroBatch, StepOutput
from trainers.engine.lora import Adapter, LoraConfig, Route, adapt, adapted_shapes
from trainers.engine.norms import fuse_norms
from trainers.engine.optimizer import AdamParams, adamw_step
from trainers.engine.packing import lay_out, split_by_tokens
from trainers.engine.pulse import Pulse
from trainers.engine.sampler import Completion, SamplingParams, sample
from trainers.engine.token_logprobs import token_logprobs
from trainers.errors import RunError
from trainers.losses import LOSSES, Loss, LossInputs

_EVERY_ROW = sys.maxsize
_CHECK_TOKENS = 24
_CHECK_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.bfloat16: 0.5}


class Engine:
    """Use :meth:`load`. Not safe for several threads at once.

    ``pulse.listener`` may be set to a function that is told the share done of the call in progress; it may raise.
    ``tokens_per_pass`` bounds how many tokens go through the network at a time, and so the memory of a training step.
    """

    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerBase, path: Path, threads: int) -> None:
        self.model, self.tokenizer, self.path, self.threads = model, tokenizer, path, threads
        weight: Tensor = model.get_input_embeddings().weight  # type: ignore[operator]
        self.dtype, self.device = weight.dtype, weight.device
        config: Any = model.config
        self.config = config
        self.layers = int(config.num_hidden_layers)
        self.route, self.pulse = Route(), Pulse()
        fuse_norms(model)
        self.adaptable = adapt(model, self.route)
        self.output: nn.Module = model.get_output_embeddings()  # type: ignore[operator]
        self.adapters: dict[str, Adapter] = {}
        self.tokens_per_pass = 1024
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.kv_bytes_per_token: int = 2 * self.layers * heads * width * weight.element_size()

    @classmethod
    def load(
        cls, path: Path, *, dtype: torch.dtype = torch.float32, threads: int | None = None, device: str = "cpu"
    ) -> Engine:
        """Load a causal language model from a folder of safetensors. ``threads``: CPU threads of this process.

        Nothing is unpickled and no code of the folder is run. The model's own forward pass and the packed one are
        compared before the engine is handed out. Raises ``RunError("base_model", …)`` when the model cannot be used.
        """
        if threads:
            torch.set_num_threads(threads)
        check_model_folder(path)
        transformers_logging.disable_progress_bar()
        options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, **options)
            model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, **options)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise RunError(
                "base_model",
                f"The base model {path.name} could not be loaded: {str(error).splitlines()[0]}",
                "Choose another base model, or check that its folder is complete.",
                "model.base",
            ) from error
        model = model.to(device).eval().requires_grad_(False)
        probes = _probes(model.config.vocab_size)
        with torch.no_grad():
            expected = model(probes.to(device), use_cache=False).logits
        model.config._attn_implementation = ATTENTION_NAME
        engine = cls(model, tokenizer, path, threads or torch.get_num_threads())
        engine._check_against(probes, expected)
        return engine

    def _check_against(self, probes: Tensor, expected: Tensor) -> None:
        layout = lay_out(probes.tolist())
        tokens, positions = (torch.from_numpy(part).to(self.device) for part in (layout.tokens, layout.positions))
        cause: Exception | None = None
        try:
            with torch.no_grad(), attending(TreeAttention(layout, self.dtype, self.device)):
                row = self.logits(self.hidden(tokens, positions))
            found = torch.stack([row[torch.from_numpy(place).to(self.device)] for place in layout.places])
            difference = float((found.double() - expected.double()).abs().max())
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            difference, cause = float("inf"), error
        if not difference <= _CHECK_TOLERANCE[self.dtype] * max(1.0, float(expected.abs().max())):
            raise RunError(
                "base_model",
                f"Models of the type {self.config.model_type} are not supported by the engine yet.",
                "Choose a model of another family, for example Llama, Qwen or SmolLM.",
                "model.base",
            ) from cause

    # --- adapters -----------------------------------------------------------------------------------------------

    def add_adapter(self, name: str, config: LoraConfig) -> Adapter:
        """A new adapter that changes nothing yet. Raises ``ValueError`` if the name is taken."""
        if name in self.adapters:
            raise ValueError(f"there is already an adapter called {name!r}")
        adapter = Adapter(config, adapted_shapes(self.adaptable, config, self.output), self.device)
        self.adapters[name] = adapter
        return adapter

    def remove_adapter(self, name: str) -> None:
        """Forget an adapter and free its memory."""
        del self.adapters[name]

    @contextmanager
    def _through(self, adapter: str | None) -> Iterator[Adapter | None]:
        chosen = None if adapter is None else self.adapters[adapter]
        with self.route.through([(chosen, 0, _EVERY_ROW)]):
            yield chosen

    # --- the network --------------------------------------------------------------------------------------------

    def hidden(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Last hidden states (T, d) of a packed row of tokens (T) at their positions (T), under the current pattern."""
        body = self.model.base_model
        output = body(input_ids=tokens[None], position_ids=positions[None], use_cache=False)  # type: ignore[operator]
        return output.last_hidden_state[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (R, V) of hidden states (R, d)."""
        return self.output(hidden)

    def _score(self, batch: MicroBatch, temperature: float) -> tuple[Tensor, Tensor]:
        layout = batch.layout
        pattern = _Counting(TreeAttention(layout, self.dtype, self.device), self.pulse, len(layout) / self.layers)
        with attending(pattern):
            hidden = self.hidden(
                torch.from_numpy(layout.tokens).to(self.device), torch.from_numpy(layout.positions).to(self.device)
            )
        adapted = any(adapter and self._adapts_output(adapter) for adapter, _, _ in self.route.stretches)
        plain = not adapted and self.output.bias is None
        weight: Tensor = self.output.weight  # type: ignore[assignment]
        return token_logprobs(
            hidden[batch.positions],
            weight,
            batch.rows,
            batch.targets,
            temperature=temperature,
            unembed=None if plain else self.logits,
        )

    def _adapts_output(self, adapter: Adapter) -> bool:
        return getattr(self.output, "name", None) in adapter.factors

    # --- primitives ---------------------------------------------------------------------------------------------

    def forward_backward(
        self,
        adapter: str,
        batch: Sequence[Datum],
        loss: str | Loss,
        config: Mapping[str, float] | None = None,
        *,
        temperature: float = 1.0,
    ) -> StepOutput:
        """Loss of the batch (a sum over tokens); its gradient is added to what the adapter has accumulated.

        Beginnings that datums share are computed once. Raises ``ValueError`` for arrays the loss lacks and
        ``RunError("not_finite" | "out_of_memory", …)``; the gradient is then incomplete and must be dropped.
        """
        with self._through(adapter):
            return self._run(batch, LOSSES[loss] if isinstance(loss, str) else loss, config, temperature, train=True)

    def forward(
        self,
        adapter: str | None,
        batch: Sequence[Datum],
        loss: str | Loss = "cross_entropy",
        config: Mapping[str, float] | None = None,
        *,
        temperature: float = 1.0,
    ) -> StepOutput:
        """The same without a gradient. ``adapter`` None is the base model."""
        with self._through(adapter), torch.no_grad():
            return self._run(batch, LOSSES[loss] if isinstance(loss, str) else loss, config, temperature, train=False)

    def logprobs(self, adapter: str | None, batch: Sequence[Datum], *, temperature: float = 1.0) -> list[Tensor]:
        """Log-probability of every target of every datum: tensors (M)."""
        plain = [Datum(datum.tokens, datum.targets) for datum in batch]
        return self.forward(adapter, plain, temperature=temperature).logprobs

    def _run(
        self,
        batch: Sequence[Datum],
        loss: Loss,
        config: Mapping[str, float] | None,
        temperature: float,
        *,
        train: bool,
    ) -> StepOutput:
        parts = split_by_tokens([datum.tokens for datum in batch], self.tokens_per_pass)
        micro_batches = [MicroBatch.of([batch[i] for i in part], self._work_dtype, self.device) for part in parts]
        passed = sum(len(micro.layout) for micro in micro_batches)
        self.pulse.begin(passed * (3 if train else 1))
        logprobs: list[Tensor] = [torch.empty(0)] * len(batch)
        total, entropy_sum, sums = 0.0, 0.0, {}  # type: float, float, dict[str, float]
        for part, micro in zip(parts, micro_batches, strict=True):
            with named_memory_errors():
                scored, entropy = self._score(micro, temperature)
                output = loss(LossInputs(scored, micro.arrays, micro.bounds), config)
                value = float(output.total.detach())
                if value != value or abs(value) == float("inf"):
                    raise _not_finite()
                if train:
                    output.total.backward()
            total += value
            entropy_sum += float(entropy[micro.rows].sum())
            for name, figure in output.sums.items():
                sums[name] = sums.get(name, 0.0) + float(figure)
            for index, piece in zip(
                part, scored.detach().split(torch.tensor(micro.bounds).diff().tolist()), strict=True
            ):
                logprobs[index] = piece
        return StepOutput(logprobs, total, sums, entropy_sum, sum(len(datum.targets) for datum in batch), passed)

    @property
    def _work_dtype(self) -> torch.dtype:
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def optim_step(self, adapter: str, params: AdamParams) -> dict[str, float]:
        """AdamW on the accumulated gradient, which is then zero. See :func:`trainers.engine.optimizer.adamw_step`."""
        return adamw_step(self.adapters[adapter], params)

    def sample(
        self, adapter: str | None, prompts: Sequence[Sequence[int]], params: SamplingParams
    ) -> list[list[Completion]]:
        """``params.n`` completions for each prompt (token lists, none empty), in order.

        A completion is decided by the seed, the index of its prompt, its own index, and the weights. Without a seed one
        is drawn from the adapter's own stream.
        """
        if not prompts:
            return []
        if any(not prompt for prompt in prompts):
            raise ValueError("a prompt must have at least one token")
        self.pulse.begin(1.0)
        with self._through(adapter) as chosen, torch.inference_mode(), named_memory_errors():
            seed = params.seed if params.seed is not None else _next_seed(chosen)
            return sample(self, prompts, params, seed, self.pulse.at, 4 * self.tokens_per_pass)


class _Counting:
    """A pattern that also tells the pulse how far the forward and the backward pass have come."""

    def __init__(self, pattern: TreeAttention, pulse: Pulse, units: float) -> None:
        self.pattern, self.pulse, self.units = pattern, pulse, units

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        self.pulse.add(self.units)
        if query.requires_grad:
            query.register_hook(self._backward)
        return self.pattern(layer, query, key, value, scaling)

    def _backward(self, gradient: Tensor) -> None:
        self.pulse.add(2 * self.units)


@contextmanager
def named_memory_errors() -> Iterator[None]:
    """Turn an allocation that failed, on CPU or GPU, into ``RunError("out_of_memory", …)``."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "not enough memory" in str(error):
            raise RunError(
                "out_of_memory",
                "The device has not enough memory for this batch.",
                "Lower the batch size, the group size or the longest completion, or choose a device with more memory.",
                "hyperparameters.batch_size",
            ) from error
        raise


def _not_finite() -> RunError:
    return RunError(
        "not_finite",
        "The loss is not finite (NaN or infinite).",
        "Lower the learning rate, keep gradient clipping on, and look for extreme rewards or weights.",
        "hyperparameters.learning_rate",
    )


def _next_seed(adapter: Adapter | None) -> int:
    if adapter is None:
        return int(torch.randint(2**62, ()))
    adapter.draws += 1
    return (adapter.config.seed * 1_000_003 + adapter.draws) % 2**62


def _probes(vocabulary: int) -> Tensor:
    """Two sequences with a common beginning: a model that ignores the pattern of the pass would mix them up."""
    one = (torch.arange(_CHECK_TOKENS) * 7919 + 11) % vocabulary
    other = torch.cat([one[: _CHECK_TOKENS // 2], one[_CHECK_TOKENS // 2 :].flip(0)])
    return torch.stack([one, other])
