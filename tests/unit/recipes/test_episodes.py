"""Episodes of several turns: histories exact to the token, and only the model's own tokens trained."""

from __future__ import annotations

import pytest

from tests.benchmarks.recording import SimpleRow
from trainers.engine.lora import LoraConfig
from trainers.engine.sampler import Completion, SamplingParams
from trainers.envs import ENVIRONMENTS
from trainers.errors import RunError
from trainers.recipes.chat import encode, render, stop_tokens
from trainers.recipes.episodes import Episodes
from trainers.recipes.policy_data import Sample
from trainers.recipes.rollouts import make_prompts
from trainers.recipes.run import run_recipe


def rows(kind: str, count: int) -> list[SimpleRow]:
    return [
        SimpleRow([{"role": "user", "content": task["prompt"]}], task["answer"], row=task)
        for task in ENVIRONMENTS[kind].tasks(count, seed=1)
    ]


def params(engine, **changes) -> SamplingParams:
    settings = {"max_tokens": 12, "n": 3, "stop_tokens": stop_tokens(engine), "seed": 5} | changes
    return SamplingParams(**settings)


class Scripted:
    """An engine whose samples are given texts, encoded in an unusual way: one token per byte."""

    def __init__(self, engine, replies: list[str]) -> None:
        self._engine, self._replies, self.histories = engine, iter(replies), []

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def sample(self, adapter, prompts, params):
        self.histories.append([list(prompt) for prompt in prompts])
        return [[self._completion() for _ in range(params.n)] for _ in prompts]

    def _completion(self) -> Completion:
        tokens = [*encode(self._engine, next(self._replies)), self._engine.tokenizer.eos_token_id]
        return Completion(tokens, [-0.5] * len(tokens), [0.1] * len(tokens), True)


def test_a_dialogue_reads_as_the_template_writes_it(engine):
    (row,) = rows("guess", 1)
    secret, highest = row.row["secret"], row.row["highest"]
    wrong = 1 if secret > 1 else highest
    scripted = Scripted(engine, [str(wrong), str(secret)])
    prompts, _ = make_prompts(engine, [row], 500)
    ((rollout,),) = Episodes(scripted, "policy", "guess", 8).roll_out(prompts, params(engine, n=1)).groups
    direction = "higher" if secret > wrong else "lower"
    chat = [
        *row.prompt_messages,
        {"role": "assistant", "content": str(wrong)},
        {"role": "user", "content": f"It is {direction}."},
        {"role": "assistant", "content": str(secret)},
    ]
    whole = engine.tokenizer.decode([*rollout.prompt.tokens, *rollout.completion.tokens])
    assert render(engine, chat, generation=False).rstrip("\n") == whole
    own = [token for token, mine in zip(rollout.completion.tokens, rollout.mask, strict=True) if mine]
    assert engine.tokenizer.decode(own) == f"{wrong}<|im_end|>{secret}<|im_end|>"
    assert rollout.score.accurate and rollout.score.parts == {"turns": 2.0, "guesses": 2.0}
    assert rollout.completion.stopped and rollout.length == len(own)
    assert rollout.text == f"{wrong}\n» It is {direction}.\n{secret}"
    assert (
        scripted.histories[1][0]
        == [*rollout.prompt.tokens, *rollout.completion.tokens][: len(scripted.histories[1][0])]
    )


def test_finished_episodes_leave_the_batch(engine):
    made = rows("sums", 3)
    right = [row.answer for row in made]
    scripted = Scripted(engine, [right[0], "x", right[2], right[1]])
    prompts, _ = make_prompts(engine, made, 500)
    groups = Episodes(scripted, "policy", "sums", 8).roll_out(prompts, params(engine, n=1)).groups
    assert [len(batch) for batch in scripted.histories] == [3, 1]
    assert [group[0].score.reward for group in groups] == [1.0, 0.5, 1.0]


def test_an_episode_is_cut_after_its_last_turn(engine):
    scripted = Scripted(engine, ["x"] * 2)
    prompts, _ = make_prompts(engine, rows("countdown", 1), 500)
    ((rollout,),) = Episodes(scripted, "policy", "countdown", 2).roll_out(prompts, params(engine, n=1)).groups
    assert rollout.score.parts["turns"] == 2.0 and not rollout.score.accurate
    assert rollout.mask[-1] is True, "nothing follows that nobody answers"


def test_the_log_probabilities_of_sampling_are_those_of_training(engine):
    engine.add_adapter("policy", LoraConfig(rank=4))
    prompts, _ = make_prompts(engine, rows("guess", 3), 500)
    rollouts = Episodes(engine, "policy", "guess", 4).roll_out(prompts, params(engine, max_tokens=40))
    samples = [Sample(rollout, [1.0] * len(rollout.completion.tokens)) for rollout in rollouts.flat]
    assert any(not all(rollout.mask) for rollout in rollouts.flat), "some episodes have several turns"
    trained = engine.logprobs("policy", [sample.scored() for sample in samples])
    for sample, values in zip(samples, trained, strict=True):
        for value, sampled, own in zip(
            values.tolist(), sample.rollout.completion.logprobs, sample.rollout.mask, strict=True
        ):
            assert not own or value == pytest.approx(sampled, abs=2e-4)


def test_only_the_models_own_tokens_are_trained(engine):
    engine.add_adapter("policy", LoraConfig(rank=4))
    prompts, _ = make_prompts(engine, rows("sums", 2), 500)
    scripted = Scripted(engine, ["1", "2", "3", "4"])
    rollout = Episodes(scripted, "policy", "sums", 8).roll_out(prompts, params(engine, n=1)).flat[0]
    datum = Sample(rollout, [2.0] * len(rollout.completion.tokens)).datum(0.5, None)
    for name, value in (("token_weights", 0.5), ("advantages", 2.0), ("mask", 1.0)):
        assert datum.arrays[name] == [value if own else 0.0 for own in rollout.mask]


def test_the_same_seed_plays_the_same_episodes(engine):
    engine.add_adapter("policy", LoraConfig(rank=4))
    prompts, _ = make_prompts(engine, rows("guess", 2), 500)
    one, again = (
        Episodes(engine, "policy", "guess", 3).roll_out(prompts, params(engine, max_tokens=30)) for _ in range(2)
    )
    assert [rollout.completion for rollout in one.flat] == [rollout.completion for rollout in again.flat]


def test_a_row_without_a_task_is_a_named_error(engine):
    prompts, _ = make_prompts(engine, [SimpleRow([{"role": "user", "content": "hi"}], None)], 500)
    with pytest.raises(RunError, match="no task of the environment guess") as caught:
        Episodes(engine, None, "guess", 3).roll_out(prompts, params(engine))
    assert caught.value.field == "data.source"


def test_a_template_that_drops_earlier_answers_is_a_named_error(engine):
    engine.tokenizer.chat_template = "{{ messages[-1]['content'] }}"
    scripted = Scripted(engine, ["1"])
    prompts, _ = make_prompts(engine, rows("sums", 1), 500)
    with pytest.raises(RunError, match="leaves out earlier answers"):
        Episodes(scripted, None, "sums", 3).roll_out(prompts, params(engine, n=1))


def test_it_learns_to_guess(make_context, tiny_folder):
    context = make_context(
        environment={"kind": "guess", "max_turns": 3},
        reward=None,
        hyperparameters={"steps": 12, "batch_size": 2, "learning_rate": 0.03},
        sampling={"group_size": 24, "max_new_tokens": 6},
        evaluation={"prompts": 2, "every_steps": 0, "samples_per_prompt": 32, "greedy": False},
    )
    task = {"highest": 2, "secret": 1}
    made = [SimpleRow([{"role": "user", "content": f"{i}: 1 or 2?"}], "1", row=task) for i in range(8)]
    result = run_recipe(
        context, model_path=tiny_folder, train_rows=made[2:], eval_rows=made[:2], scorer=None, threads=1
    )
    assert result["before"]["accuracy"] < 0.25
    assert result["after"]["accuracy"] > result["before"]["accuracy"] + 0.3
    assert all(event["parts"].keys() == {"turns", "guesses"} for event in context.of("rollout"))
