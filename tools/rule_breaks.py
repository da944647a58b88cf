"""Small breaks of the algorithms' rules, one at a time, and the tests that must notice each.

Source is found by its text, wherever it stands, and tests by the names of their files. A text must
occur exactly once in the source; where the source has been rewritten, rewrite it here as well.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Break:
    """A rule, the files with tests of it, and edits (old text, new text) that break it."""

    rule: str
    tests: str
    edits: tuple[tuple[str, str], ...]


def _break(rule: str, tests: str, *texts: str) -> Break:
    return Break(rule, tests, tuple(zip(texts[::2], texts[1::2], strict=True)))


BREAKS = (
    _break(
        "two-hop estimates come from the most similar peer",
        "test_dac",
        "scored.sort(key=lambda offer: scores[offer.peer])",
        "scored.sort(key=lambda offer: -scores[offer.peer])",
    ),
    _break(
        "an estimate never overwrites a measurement",
        "test_dac",
        'np.where(np.isnan(rows["measured"]), rows["estimated"], rows["measured"])',
        'np.where(np.isnan(rows["estimated"]), rows["measured"], rows["estimated"])',
        'values["estimated"][~np.isnan(values["measured"])] = np.nan',
        "pass",
    ),
    _break(
        "only measurements are passed on with two hops",
        "test_dac",
        'rows["measured"] if hops == "two" else _best_known(rows)',
        "_best_known(rows)",
    ),
    _break(
        "the softmax subtracts the maximum",
        "test_dac test_merging_and_sampling",
        "shifted = values - highest",
        "shifted = values",
    ),
    _break(
        "unseen peers have similarity 0 inside the softmax",
        "test_dac test_merging_and_sampling",
        'if unseen == "zero":',
        'if unseen != "zero":',
    ),
    _break(
        "with unseen=epsilon all probabilities rise by 1e-6",
        "test_dac test_merging_and_sampling",
        "EPSILON = 1e-6",
        "EPSILON = 1e-4",
    ),
    _break(
        "DAC-var grows from 1 with slope 0.2",
        "test_dac",
        "math.exp(-0.2 * round_number)",
        "math.exp(-0.3 * round_number)",
    ),
    _break(
        "DAC min-max with equal similarities is uniform",
        "test_dac",
        "if len(known) == 0 or known.max() == known.min():",
        "if len(known) == 0:",
    ),
    _break(
        "entries about this peer or unknown peers are ignored",
        "test_dac",
        "use = me.is_other(peers) & np.isfinite(similarities)",
        "use = np.isfinite(similarities)",
    ),
    _break(
        "a loss of 0 is clamped",
        "test_dac test_scoring test_every_metric",
        "1.0 / max(value, SMALLEST)",
        "1.0 / value",
    ),
    _break(
        "cosine-gradients weighs the two cosines by α and 1 − α",
        "test_dac test_scoring test_every_metric test_options_at_work",
        "parts.append((1 - alpha,",
        "parts.append((alpha,",
    ),
    _break(
        "FedAvg includes the own model",
        "test_merging_and_sampling",
        "normalise({me.peer: float(me.num_samples), **samples})",
        "normalise(samples or {me.peer: 1.0})",
    ),
    _break(
        "FedAvg weighs by the number of training samples",
        "test_merging_and_sampling",
        "{offer.peer: float(offer.num_samples) for offer in offers}",
        "{offer.peer: float(me.num_samples) for offer in offers}",
    ),
    _break(
        "FedSim's own weight is the largest of the others",
        "test_merging_and_sampling test_dac",
        "normalise({me.peer: 1.0, **{p: math.exp(log - highest)",
        "normalise({me.peer: 0.5, **{p: math.exp(log - highest)",
    ),
    _break(
        "Greedy keeps the highest scores",
        "test_pens_family",
        "sorted(scores, key=lambda peer: -scores[peer])[:count]",
        "sorted(scores, key=lambda peer: scores[peer])[:count]",
    ),
    _break(
        "EpsilonGreedy's share of swaps decays with the rounds",
        "test_pens_family",
        "self.epsilon * self.decay**me.round",
        "self.epsilon * self.decay",
    ),
    _break(
        "unlisted peers compete with the largest of all their keys",
        "test_draws_in_large_networks",
        "self.log_rest - np.log(draw_smallest(rng, len(self.rest), count))",
        "self.log_rest - np.log(draw_smallest(rng, min(count, len(self.rest)), count))",
    ),
    _break(
        "of unlisted peers Kin draws a share as similar",
        "test_draws_in_large_networks",
        "num_drawn = int(rng.binomial(len(rest), rest_probability))",
        "num_drawn = 0",
    ),
    _break(
        "places that are left out are passed over",
        "test_draws_in_large_networks",
        'ranks_before.searchsorted(ranks, side="right")',
        "ranks_before.searchsorted(ranks)",
    ),
    _break(
        "PENS keeps peers selected more often than chance",
        "test_pens_family test_chosen_neighbours",
        "self.num_selected.peers[counts > expected]",
        "self.num_selected.peers[counts > 0]",
    ),
    _break(
        "PENS without neighbours falls back to all peers",
        "test_pens_family test_every_strategy",
        "        if len(neighbours):\n            return sample_uniformly(me.rng, neighbours",
        "        if True:\n            return sample_uniformly(me.rng, neighbours",
    ),
    _break(
        "PENS trains for its own number of epochs in step 1",
        "test_pens_family test_options_at_work",
        "yield Train(epochs=self.exploration_epochs)",
        "yield Train()",
    ),
    _break(
        "RandomWeighted's own weight is its validation accuracy",
        "test_pens_family",
        "normalise({me.peer: me.validation_score, **amounts})",
        "normalise({me.peer: 1.0, **amounts})",
    ),
    _break(
        "PANM keeps the most similar peers",
        "test_panm",
        "np.argsort(-self.table.similarities(met)",
        "np.argsort(self.table.similarities(met)",
    ),
    _break(
        "PANM draws its candidates outside the neighbours",
        "test_panm",
        "sample_others(me, self.candidates, without=self.members)",
        "sample_others(me, self.candidates)",
    ),
    _break(
        "PANM sorts its bag every em_every rounds",
        "test_panm",
        "if (me.round - self.confident_rounds) % self.em_every == 0:",
        "if (me.round - self.confident_rounds) % 1 == 0:",
    ),
    _break(
        "the mixture counts a class's density",
        "test_mixture",
        "np.log(members.mean()) - 0.5 * (",
        "-0.5 * (",
    ),
    _break(
        "the mixture's variances have a floor",
        "test_mixture",
        "max(own.var(), SMALLEST_SHARE * scores.var())",
        "max(own.var(), 1e-12)",
    ),
    _break(
        "HAST's second step merges the classifier alone",
        "test_hast",
        "probabilities), last_layers=self.depth)",
        "probabilities))",
    ),
    _break(
        "HAST stores what it measures in step 2",
        "test_hast",
        "yield from self._fetch_and_score(me, probabilities.sample(me.rng, self.fetches))",
        "yield Fetch(probabilities.sample(me.rng, self.fetches))",
    ),
    _break(
        "fine-tuning is kept only if validation improves",
        "test_hast test_options_at_work test_kin",
        "Train(last_layers=depth, only_if_better=True)",
        "Train(last_layers=depth)",
    ),
    _break(
        "Gossip averages half and half",
        "test_gossip",
        "{me.peer: 0.5, received.peer: 0.5}",
        "{me.peer: 0.25, received.peer: 0.75}",
    ),
    _break(
        "Oracle samples in its own true cluster",
        "test_oracle test_yardsticks",
        "yield Fetch(sample_uniformly(me.rng, me.true_cluster, self.fetches))",
        "yield Fetch(sample_uniformly(me.rng, me.others, self.fetches))",
    ),
    _break(
        "an IFCA client joins the model with the lowest loss",
        "test_yardsticks test_every_strategy",
        "min(range(self.models), key=of.__getitem__)",
        "max(range(self.models), key=of.__getitem__)",
    ),
    _break(
        "Kin's tests have the scale of BIC",
        "test_paired_test",
        "power = max(z, 0.0) ** 2 / 2 - math.log(num_samples) / 2",
        "power = max(z, 0.0) ** 2 / 2",
    ),
    _break(
        "Kin allows other models what the best has memorised",
        "test_paired_test",
        "in_training[best] + np.float32(memorised)",
        "in_training[best]",
    ),
    _break(
        "Kin's evidence fades with age",
        "test_evidence",
        "np.exp(-(1 + self._num_changed) / (period + self._rounds_stood))",
        "1.0",
    ),
    _break(
        "Kin adopts the best model where averaging does harm",
        "test_kin",
        "if not is_worse((yield ValidateMerge(average)), losses[order[0]]):",
        "if not is_worse((yield ValidateMerge(average)), losses[order[-1]]):",
    ),
    _break(
        "a synchronous round reads models as they were when it began",
        "test_rounds test_requests",
        "self._held[peer][sender] = self._state.published[sender]",
        "self._held[peer][sender] = self._state.current[sender]",
    ),
    _break(
        "draws of strategies depend on the round",
        "test_reproducibility test_rounds test_checkpoints test_requests",
        'generator(seed, "strategy", self._state.keys[peer], now.number)',
        'generator(seed, "strategy", self._state.keys[peer])',
    ),
    _break(
        "with best=trained a merged model is no best",
        "test_validating test_early_stopping test_rounds",
        'if bests.rule == "any":',
        "if True:",
    ),
    _break(
        "the best by accuracy averages five validations",
        "test_early_stopping",
        "WINDOW = 5",
        "WINDOW = 4",
    ),
    _break(
        "a shift wakes stopped peers",
        "test_early_stopping test_stopped_and_shifted",
        "self.stopped[:] = False\n        self._recent[:] = np.nan",
        "self._recent[:] = np.nan",
    ),
    _break(
        "a shift resets the best model",
        "test_early_stopping test_stopped_and_shifted",
        "self.best_value[:] = np.inf",
        "pass",
    ),
    _break(
        "stopped peers serve their best models",
        "test_early_stopping test_stopped_and_shifted test_rounds",
        "copy_rows(self._state.published, self._state.best, peers)",
        "pass",
    ),
    _break(
        "a probe and a lost model count as sent",
        "test_exchange_log test_requests",
        'np.ones(len(columns["sender"]), dtype=bool)',
        'columns["delivered"]',
    ),
    _break(
        "sign-flipped models undo the training twice",
        "test_poisoning",
        "published[part] = merged[part] - (trained[part] - merged[part])",
        "published[part] = merged[part]",
    ),
    _break(
        "peers are tested on their own distribution",
        "test_scenario_shifts test_scenario_peers test_drift",
        "test = self._test[cluster]",
        "test = self._test[0]",
    ),
    _break(
        "swapped labels swap both ways",
        "test_shifts",
        "meaning[targets == second] = first",
        "meaning[meaning == second] = first",
    ),
    _break(
        "images rotate counter-clockwise",
        "test_shifts test_images",
        "np.rot90(images, k=int(degrees // 90)",
        "np.rot90(images, k=-int(degrees // 90)",
    ),
    _break(
        "FedDrift-2 has the published matrix",
        "test_drift",
        "(0, 0, 0, 2, 5, 6, 8, 8, 10, 10)",
        "(0, 0, 0, 2, 5, 6, 8, 8, 9, 10)",
    ),
    _break(
        "two peers never hold the same image",
        "test_partition",
        "free[concept.source][mine] = False",
        "free[concept.source][mine[:1]] = False",
    ),
    _break(
        "scaling keeps at least two peers per cluster",
        "test_scaling",
        "SMALLEST_CLUSTER = 2",
        "SMALLEST_CLUSTER = 1",
    ),
    _break(
        "scaling keeps more samples than selections",
        "test_scaling",
        'max(changed["samples"], changed["fetches"] + 1)',
        'changed["samples"]',
    ),
    _break(
        "scaling keeps the number of a drift's steps",
        "test_scaling",
        "_whole(wanted.rounds * _whole(every * scale) / every)",
        "_whole(wanted.rounds * scale)",
    ),
    _break(
        "scaling gives strategies fetches in proportion to each other",
        "test_scaling",
        "part = _whole(fewest_fetches * size) / fewest_fetches",
        "part = size",
    ),
    _break(
        "the training loss is a mean over samples, not over batches",
        "test_torch_training",
        "losses.append(loss.detach() * len(batch))",
        "losses.append(loss.detach() * len(rows) / -(-len(rows) // size))",
    ),
    _break(
        "compiled code evaluates the last group of samples, however small",
        "test_native_evaluation",
        "losses_of(n, job->data->targets, job->rows + i, count,",
        "losses_of(n, job->data->targets, job->rows + i, count > 1 ? count : 0,",
    ),
    _break(
        "compiled code computes every output of a linear layer",
        "test_native_evaluation test_native_training",
        "for (; o < outputs; o++)\n        linear_outputs(1,",
        "for (; o + 1 < outputs; o++)\n        linear_outputs(1,",
    ),
    _break(
        "compiled code leaves layers alone that are not trained",
        "test_native_training",
        "find_trained(n, job->first_layer)",
        "find_trained(n, job->first_layer > 0 ? job->first_layer - 1 : 0)",
    ),
)
