// What metrics are called on their charts, and in which order the charts stand.

export const GROUPS = ["train", "eval", "reward", "reward_std", "system"];
export const TITLES = { train: "Training", eval: "Held-out", reward: "Reward parts", reward_std: "Reward parts, spread", system: "System", other: "Other" };
const FIRST = [
  "train/reward", "train/accuracy", "train/loss", "train/kl", "train/entropy", "train/completion_tokens",
  "eval/accuracy", "eval/reward", "eval/loss",
];

const NAMES = {
  kl: "KL to the base model",
  reward_std: "reward, spread",
  completion_tokens: "completion length (tokens)",
  completion_tokens_max: "longest completion (tokens)",
  prompt_tokens: "prompt length (tokens)",
  truncated: "cut completions (share)",
  clip_fraction: "clipped ratios (share)",
  grad_norm: "gradient norm",
  zero_variance_groups: "groups without a difference",
  logprob_mismatch: "sampler against trainer",
  pass_at_k: "solved at least once (share of prompts)",
  reward_shaped: "reward after penalties",
  reward_kept: "reward of what is imitated",
  kept: "completions imitated (share)",
  prompts_drawn: "prompts drawn for the batch",
  importance_capped: "importance weights at the cap (share)",
  margin: "margin of the better answer",
  teacher_kl: "divergence from the teacher",
  explained_variance: "reward foreseen by the critic (share)",
  mfu: "arithmetic used (share of the device's peak)",
};
const ENDINGS = [[/_per_s$/, " per second"], [/_s$/, " (s)"], [/_gb$/, " (GB)"]];

/** A metric's name as a title; what a person named themselves (parts of their reward) stays as it is. */
export function titleOf(key) {
  const group = groupOf(key);
  if (group === "other") return key;
  const name = key.slice(key.indexOf("/") + 1);
  if (group.startsWith("reward")) return name;
  if (name in NAMES) return NAMES[name];
  const [ending, words] = ENDINGS.find(([pattern]) => pattern.test(name)) ?? [/$/, ""];
  return name.replace(ending, words).replaceAll("_", " ");
}

/** Keys with `/` belong to the group before it. */
export function groupOf(key) {
  const prefix = key.split("/", 1)[0];
  return key.includes("/") && GROUPS.includes(prefix) ? prefix : "other";
}

/** The important ones first, the rest by name. */
export function byImportance(a, b) {
  const [i, j] = [FIRST.indexOf(a), FIRST.indexOf(b)];
  if (i >= 0 || j >= 0) return (i < 0 ? FIRST.length : i) - (j < 0 ? FIRST.length : j);
  return a < b ? -1 : 1;
}
