"""The engine: one base model on one device, with any number of adapters, and the primitives recipes are written on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from trainers.engine.adapted import AdaptedLinear, adapt
from trainers.engine.attention import TreeAttention, connect
from trainers.engine.batch import Datum, StepOutput
from trainers.engine.decoding import runs
from trainers.engine.failures import named_memory_errors
from trainers.engine.full import FullConfig, FullWeights
from trainers.engine.fused import fuse_blocks
from trainers.engine.loading import load_model, prove_packed, refuse_experts
from trainers.engine.lora import Adapter, LoraConfig, adapted_shapes
from trainers.engine.norms import fuse_norms
from trainers.engine.optimizer import AdamParams, adamw_step
from trainers.engine.packing import Layout
from trainers.engine.pulse import Pulse
from trainers.engine.ready import ReadyWeights
from trainers.engine.recompute import Recompute
from trainers.engine.route import Route, Stretch
from trainers.engine.sampler import Completion, Sampled, SampleRequest, SamplingParams, sample
from trainers.engine.training import Pass, TrainRequest
from trainers.losses import Loss
from trainers.memory import TOKENS_PER_PASS

Trainable = Adapter | FullWeights


class Engine:
    """Use :meth:`load`. Not safe for several threads at once.

    ``pulse.listener`` may be set to a function that is told the share done of the call in progress; it may raise.
    ``context``: the longest sequence that the model has positions for.
    ``tokens_per_pass`` bounds how many tokens go through the network at a time, and so the memory of a training step.
    ``recompute.on`` lowers it further: layers keep only their input and are computed again for the gradient.
    """

    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerBase, path: Path, threads: int) -> None:
        self.model, self.tokenizer, self.path, self.threads = model, tokenizer, path, threads
        weight: Tensor = model.get_input_embeddings().weight  # type: ignore[operator]
        self.dtype, self.device = weight.dtype, weight.device
        config: Any = model.config
        self.config = config
        self.layers = int(config.num_hidden_layers)
        self.context = int(getattr(config, "max_position_embeddings", 10**9))
        self.route, self.pulse = Route(), Pulse()
        fuse_norms(model)
        fuse_blocks(model, self.route)
        self.adaptable = adapt(model, self.route)
        connect(model, self.route)
        self.recompute = Recompute(model)
        self.output: AdaptedLinear = model.get_output_embeddings()  # type: ignore[operator]
        self.ready = ReadyWeights(list(self.adaptable.values()))
        self.adapters: dict[str, Trainable] = {}
        self.tokens_per_pass = TOKENS_PER_PASS
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
        model, tokenizer, probes, expected = load_model(path, dtype, device)
        engine = cls(model, tokenizer, path, threads or torch.get_num_threads())
        prove_packed(engine, probes, expected)
        return engine

    # --- adapters -----------------------------------------------------------------------------------------------

    def add_adapter(self, name: str, config: LoraConfig) -> Adapter:
        """A new adapter that changes nothing yet. Raises ``ValueError`` if the name is taken."""
        self._free(name)
        if config.mlp:
            refuse_experts(self.model)
        groups = list(dict.fromkeys(layer.group for layer in self.adaptable.values()))
        shapes = adapted_shapes(groups, config, self.output.group.names[0])
        adapter = Adapter(config, shapes, self.device)
        self.adapters[name] = adapter
        return adapter

    def add_full(self, name: str, config: FullConfig | None = None) -> FullWeights:
        """A trainable copy of all weights of the base model. Raises ``ValueError`` if the name is taken."""
        self._free(name)
        with named_memory_errors():
            weights = FullWeights(self.model, config or FullConfig())
        self.adapters[name] = weights
        return weights

    def snapshot(self, adapter: str, name: str) -> None:
        """Freeze a copy of an adapter under a new name, to be sampled and scored while the adapter trains on.

        It holds memory until :meth:`remove_adapter`. Raises ``ValueError`` if the name is taken.
        """
        self._free(name)
        source = self.adapters[adapter]
        if isinstance(source, FullWeights):
            self.adapters[name] = FullWeights(self.model, source.config, frozen=True, source=source)
            return
        copy = Adapter(source.config, source.shapes, self.device, frozen=True)
        with torch.no_grad():
            copy.values.copy_(source.values)
        self.adapters[name] = copy

    def remove_adapter(self, name: str) -> None:
        """Forget an adapter and free its memory."""
        del self.adapters[name]

    def _free(self, name: str) -> None:
        if name in self.adapters:
            raise ValueError(f"there is already an adapter called {name!r}")

    @contextmanager
    def _through(self, weights: FullWeights | None, *, train: bool = False) -> Iterator[None]:
        place = weights.in_place() if weights is not None else nullcontext()
        with place, self.route.open(train=train, device=str(self.device)):
            yield

    def _by_weights(self, names: Sequence[str | None]) -> list[tuple[FullWeights | None, list[int]]]:
        """Which requests may share passes: all on the base weights, and those of each full copy."""
        found: dict[int, tuple[FullWeights | None, list[int]]] = {}
        for index, name in enumerate(names):
            adapter = None if name is None else self.adapters[name]
            weights = adapter if isinstance(adapter, FullWeights) else None
            found.setdefault(id(weights), (weights, []))[1].append(index)
        return list(found.values())

    def _low_rank(self, name: str | None) -> Adapter | None:
        adapter = None if name is None else self.adapters[name]
        return adapter if isinstance(adapter, Adapter) else None

    # --- the network --------------------------------------------------------------------------------------------

    def hidden(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Last hidden states (T, d) of a packed row of tokens (T) at their positions (T), under the current pattern."""
        body = self.model.base_model
        output = body(input_ids=tokens[None], position_ids=positions[None], use_cache=False)  # type: ignore[operator]
        return output.last_hidden_state[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (R, V) of hidden states (R, d)."""
        return self.output(hidden)

    def read(self, adapter: str, layout: Layout, *, train: bool) -> Tensor:
        """Last hidden states (T, d) of a layout; ``train``: the adapter gets their gradient (recompute has no say)."""
        chosen = self.adapters[adapter]
        weights = chosen if isinstance(chosen, FullWeights) else None
        tokens, positions = (torch.from_numpy(part).to(self.device) for part in (layout.tokens, layout.positions))
        with self._through(weights, train=train):
            self.route.divide([(self._low_rank(adapter), 0, len(layout))])
            with self.route.attending(TreeAttention(layout, self.dtype, self.device)):
                return self.hidden(tokens, positions)

    @property
    def unembedding(self) -> Tensor:
        """The weight (V, d) of the output layer in use."""
        return self.output.weight

    def unembed_for(self, adapters: Sequence[Adapter | None]) -> Callable[[Tensor, int], Tensor] | None:
        """How hidden states whose rows belong to these adapters become logits; None where only the weight is needed."""
        name = self.output.group.names[0]
        adapted = any(adapter is not None and name in adapter.factors for adapter in set(adapters))
        trained = torch.is_grad_enabled() and self.output.weight.requires_grad
        if not adapted and self.output.bias is None and not trained:
            return None
        numbers = {id(adapter): (place, adapter) for place, adapter in enumerate(dict.fromkeys(adapters))}
        by_number = dict(numbers.values())
        owners = torch.tensor([numbers[id(adapter)][0] for adapter in adapters]).numpy()

        def unembed(hidden: Tensor, first: int) -> Tensor:
            rows = runs(owners[first : first + len(hidden)])
            stretches: list[Stretch] = [(by_number[number], start, stop) for number, start, stop in rows]
            before = self.route.stretches
            self.route.divide(stretches)
            try:
                return self.logits(hidden)
            finally:
                self.route.divide(before)

        return unembed

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
        return self.forward_backward_many([TrainRequest(adapter, batch, loss, config, temperature)])[0]

    def forward_backward_many(self, requests: Sequence[TrainRequest]) -> list[StepOutput]:
        """The same for several adapters at once: their rows share the passes through the base weights.

        Each adapter gets the gradient it would get alone (up to rounding); the same requests give the same bits.
        """
        for request in requests:
            if request.adapter is None or self.adapters[request.adapter].frozen:
                raise ValueError(f"{request.adapter or 'the base model'} is frozen and cannot be trained")
        return self._passes(requests, train=True)

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
        return self.forward_many([TrainRequest(adapter, batch, loss, config, temperature)])[0]

    def forward_many(self, requests: Sequence[TrainRequest]) -> list[StepOutput]:
        """:meth:`forward` of several requests in common passes."""
        with torch.no_grad():
            return self._passes(requests, train=False)

    def _passes(self, requests: Sequence[TrainRequest], *, train: bool) -> list[StepOutput]:
        results: dict[int, StepOutput] = {}
        for weights, indices in self._by_weights([request.adapter for request in requests]):
            chosen = [requests[index] for index in indices]
            adapters = [self._low_rank(request.adapter) for request in chosen]
            with self._through(weights, train=train), self.recompute.during(train):
                outputs = Pass(self, chosen, adapters, train=train).run()
            if train and weights is not None:
                weights.collect()
            results.update(zip(indices, outputs, strict=True))
        return [results[index] for index in range(len(requests))]

    def logprobs(self, adapter: str | None, batch: Sequence[Datum], *, temperature: float = 1.0) -> list[Tensor]:
        """Log-probability of every target of every datum: tensors (M), or (M, K)."""
        plain = [Datum(datum.tokens, datum.targets) for datum in batch]
        return self.forward(adapter, plain, temperature=temperature).logprobs

    def optim_step(self, adapter: str, params: AdamParams) -> dict[str, float]:
        """AdamW on the accumulated gradient, which is then zero. See :func:`trainers.engine.optimizer.adamw_step`."""
        chosen = self.adapters[adapter]
        if chosen.frozen:
            raise ValueError(f"{adapter} is frozen and cannot be trained")
        return adamw_step(chosen, params)

    def sample(
        self, adapter: str | None, prompts: Sequence[Sequence[int]], params: SamplingParams
    ) -> list[list[Completion]]:
        """``params.n`` completions for each prompt (token lists, none empty), in order.

        A completion is decided by the seed, the index of its prompt, its own index, and the weights. Without a seed one
        is drawn from the adapter's own stream.
        """
        return self.sample_many([SampleRequest(adapter, prompts, params)])[0].groups if prompts else []

    def sample_many(self, requests: Sequence[SampleRequest]) -> list[Sampled]:
        """Answer requests for any adapters together, each with settings and a seed of its own."""
        if any(not prompt for request in requests for prompt in request.prompts):
            raise ValueError("a prompt must have at least one token")
        self.pulse.begin(1.0)
        seeds = [self._seed(request) for request in requests]
        results: dict[int, Sampled] = {}
        for weights, indices in self._by_weights([request.adapter for request in requests]):
            chosen = [requests[index] for index in indices]
            adapters = [self._low_rank(request.adapter) for request in chosen]
            order = list(dict.fromkeys(adapters))
            rows = sum(len(request.prompts) * request.params.n for request in chosen)
            steps = max((request.params.max_tokens for request in chosen), default=0)
            with (
                self._through(weights),
                torch.inference_mode(),
                named_memory_errors(),
                self.ready.during(order, rows, steps),
            ):
                sampled = sample(
                    self,
                    chosen,
                    order,
                    [order.index(adapter) for adapter in adapters],
                    [seeds[index] for index in indices],
                    self.tokenizer,
                    self.pulse.at,
                    4 * self.tokens_per_pass,
                )
            results.update(zip(indices, sampled, strict=True))
        return [results[index] for index in range(len(requests))]

    def _seed(self, request: SampleRequest) -> int:
        if request.params.seed is not None:
            return request.params.seed
        if request.adapter is None:
            return int(torch.randint(2**62, ()))
        adapter = self.adapters[request.adapter]
        adapter.draws += 1
        return (adapter.config.seed * 1_000_003 + adapter.draws) % 2**62
