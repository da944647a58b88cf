"""Partitions: disjoint, of the sizes and labels asked for, and reproducible."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from coterie.data.labelled_dataset import Dataset
from coterie.data.partition import (
    DirichletLabels,
    EqualSizes,
    IidLabels,
    Labels,
    ListedSizes,
    Sizes,
    SkewedSizes,
    cluster_of_peers,
    divide,
    matching_test_rows,
    split,
)
from coterie.data.shifts import Concept
from coterie.errors import ConfigError, DataError

FEW = settings(max_examples=60, deadline=None, derandomize=True)
PER_LABEL = 40
BOTH = pytest.mark.parametrize(
    "labels", [IidLabels(), DirichletLabels(alpha=0.3)], ids=["iid", "dirichlet"]
)


def _dataset(per_label=PER_LABEL, num_labels=10, name="letters"):
    """Labels in order, as files often have them, so that taking the first rows would show."""
    targets = np.arange(num_labels).repeat(per_label)
    inputs = np.zeros((len(targets), 1), np.float32)
    classes = tuple(map(str, range(num_labels)))
    return Dataset(name, inputs, targets, inputs, targets, classes)


def _split(sources, concepts, clusters, train, validation=1, labels=None, seed=0):
    clusters = np.asarray(clusters)
    sizes = np.broadcast_to(np.asarray(train), clusters.shape)
    rng = np.random.default_rng(seed)
    return split(sources, concepts, clusters, sizes, validation, labels or IidLabels(), rng)


def _rows(part):
    return np.concatenate([part.train, part.validation])


def _all_rows(splits):
    return np.concatenate([_rows(part) for part in splits])


def _shares(splits, source):
    """Each peer's label proportions, (K, labels)."""
    num_labels = len(source.classes)
    counts = [np.bincount(source.targets[_rows(part)], minlength=num_labels) for part in splits]
    return np.array(counts) / np.sum(counts, axis=1, keepdims=True)


@st.composite
def _cases(draw):
    """Any number of peers and clusters, of any sizes that fit."""
    kind = draw(st.sampled_from(["shared", "labels", "datasets"]))
    num_clusters = draw(st.integers(1, 4))
    sources = [_dataset(12, 6)]
    if kind == "shared":
        concepts = [Concept(str(n), rotation=90.0 * n) for n in range(num_clusters)]
    elif kind == "labels":
        order = draw(st.permutations(range(6)))
        concepts = [Concept(str(n), labels=tuple(order[n::4])) for n in range(num_clusters)]
    else:
        sources = [_dataset(12, 6) for _ in range(num_clusters)]
        concepts = [Concept(str(n), source=n) for n in range(num_clusters)]
    clusters = np.array(draw(st.lists(st.integers(0, num_clusters - 1), min_size=1, max_size=12)))
    validation = draw(st.integers(1, 2))
    sizes = np.zeros(len(clusters), dtype=np.int64)
    stocks = [np.arange(num_clusters)] if kind == "shared" else np.arange(num_clusters)[:, None]
    for stock in stocks:
        asking = np.flatnonzero(np.isin(clusters, stock))
        if len(asking):
            concept = concepts[stock[0]]
            there = len(concept.candidates(sources[concept.source].targets))
            most = there // len(asking) - validation
            sizes[asking] = [draw(st.integers(1, most)) for _ in asking]
    labels = draw(
        st.sampled_from([IidLabels(), *(DirichletLabels(alpha=a) for a in (1e-3, 0.1, 1, 1e3))])
    )
    return sources, concepts, clusters, sizes, validation, labels, draw(st.integers(0, 99))


@FEW
@given(case=_cases())
def test_whatever_fits_is_disjoint_of_exact_size_and_of_allowed_labels(case):
    sources, concepts, clusters, sizes, validation, labels, seed = case
    splits = _split(sources, concepts, clusters, sizes, validation, labels, seed)
    assert len(splits) == len(clusters)
    used = [[] for _ in sources]
    for part, cluster, size in zip(splits, clusters, sizes, strict=True):
        concept = concepts[cluster]
        assert len(part.train) == size
        assert len(part.validation) == validation
        used[concept.source].append(_rows(part))
        if concept.labels is not None:
            found = set(sources[concept.source].targets[_rows(part)].tolist())
            assert found <= set(concept.labels)
    for source, rows in zip(sources, used, strict=True):
        together = np.concatenate([*rows, np.zeros(0, np.int64)])
        assert len(np.unique(together)) == len(together)
        assert ((together >= 0) & (together < len(source.targets))).all()


@BOTH
@pytest.mark.parametrize("groups", [None, ((0, 1, 8, 9), (2, 3, 4, 5, 6, 7))])
def test_every_single_image_can_be_dealt_out(groups, labels):
    source = _dataset()
    concepts = [Concept(str(n), labels=group) for n, group in enumerate(groups or (None, None))]
    splits = _split([source], concepts, [0] * 4 + [1] * 6, 30, 10, labels)
    assert sorted(_all_rows(splits)) == list(range(len(source.targets)))


@BOTH
def test_training_and_validation_are_disjoint(labels):
    for part in _split([_dataset()], [Concept("all")], [0] * 8, 30, 20, labels):
        assert len(np.unique(_rows(part))) == 50


def test_iid_draws_are_spread_over_the_labels():
    source = _dataset(1000)
    splits = _split([source], [Concept("all")], [0] * 20, 400, 100)
    shares = _shares(splits, source)
    assert np.abs(shares - 0.1).max() < 0.07
    assert np.abs(shares.mean(axis=0) - 0.1).max() < 0.001
    validation = source.targets[np.concatenate([part.validation for part in splits])]
    assert np.abs(np.bincount(validation) / len(validation) - 0.1).max() < 0.03


def test_small_alpha_is_more_skewed_than_large():
    source = _dataset(1000)
    largest = []
    for alpha in (0.01, 0.1, 1.0, 10.0, 1000.0):
        splits = _split([source], [Concept("all")], [0] * 40, 90, 10, DirichletLabels(alpha=alpha))
        largest.append(_shares(splits, source).max(axis=1).mean())
    assert largest == sorted(largest, reverse=True)
    assert largest[0] > 0.85
    assert largest[-1] < 0.2


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_label_proportions_have_the_variance_of_the_dirichlet_distribution(alpha):
    source, size = _dataset(5000), 100
    splits = _split(
        [source], [Concept("all")], [0] * 200, size - 10, 10, DirichletLabels(alpha=alpha), 3
    )
    shares = _shares(splits, source)
    of_proportions = 0.1 * 0.9 / (10 * alpha + 1)
    of_drawing = (0.1 - 0.1**2 - of_proportions) / size
    assert abs(shares.var() / (of_proportions + of_drawing) - 1) < 0.15


def test_dirichlet_stays_within_the_clusters_labels_and_differs_between_peers():
    source = _dataset(200)
    concepts = [Concept("a", labels=(0, 1, 8, 9)), Concept("b", labels=(3, 4))]
    splits = _split([source], concepts, [0] * 5 + [1] * 5, 30, 10, DirichletLabels(alpha=0.5))
    shares = _shares(splits, source)
    assert not shares[:5, 2:8].any()
    assert shares[5:, [3, 4]].sum() == pytest.approx(5)
    assert len(np.unique(shares[:5], axis=0)) == 5


def test_dirichlet_training_and_validation_have_the_same_mix():
    source = _dataset(2000)
    for part in _split([source], [Concept("all")], [0] * 8, 500, 500, DirichletLabels(alpha=0.3)):
        train, validation = (
            np.bincount(source.targets[rows], minlength=10) / 500
            for rows in (part.train, part.validation)
        )
        assert np.abs(train - validation).max() < 0.12


def test_regression_has_no_labels_to_skew():
    values = np.linspace(-1, 1, 100).astype(np.float32)
    source = Dataset("line", values[:, None], values, values[:, None], values)
    splits = _split([source], [Concept("all")], [0] * 5, 15, 5, DirichletLabels(alpha=0.1))
    assert sorted(_all_rows(splits)) == list(range(100))


def test_the_same_generator_gives_the_same_split():
    source = _dataset()
    for labels in (IidLabels(), DirichletLabels(alpha=0.3)):
        first, again, other = (
            _split([source], [Concept("all")], [0] * 8, 20, 5, labels, seed) for seed in (1, 1, 2)
        )
        for one, two in zip(first, again, strict=True):
            np.testing.assert_array_equal(one.train, two.train)
            np.testing.assert_array_equal(one.validation, two.validation)
        assert _all_rows(first).tolist() != _all_rows(other).tolist()


@BOTH
def test_shortage_says_how_many_there_are(labels):
    with pytest.raises(DataError, match=r"5 peers ask for 405 images of letters .* only 400\b"):
        _split([_dataset()], [Concept("all")], [0] * 5, 80, 1, labels)


@BOTH
def test_shortage_of_a_label_group_counts_its_images_and_peers(labels):
    concepts = [Concept("a", labels=(0, 1)), Concept("b", labels=(2, 3, 4))]
    with pytest.raises(DataError) as caught:
        _split([_dataset()], concepts, [0, 0, 1, 1, 1], [20, 20, 40, 40, 40], 1, labels)
    message = str(caught.value)
    assert "3 peers ask for 123 images with labels [2, 3, 4] of letters" in message
    assert "only 120" in message
    assert "train_size" in message


def test_rotated_clusters_compete_for_the_same_images():
    concepts = [Concept("0°"), Concept("90°", rotation=90)]
    with pytest.raises(DataError, match=r"4 peers ask for 404 images .* only 400\b"):
        _split([_dataset()], concepts, [0, 0, 1, 1], 100, 1)


def test_datasets_do_not_compete():
    concepts = [Concept("a"), Concept("b", source=1)]
    splits = _split([_dataset(), _dataset()], concepts, [0, 1], 399, 1)
    assert [sorted(_rows(part)) for part in splits] == [list(range(400))] * 2


@pytest.mark.parametrize(
    ("num_peers", "shares", "counts"),
    [
        (100, (70, 20, 5, 5), [70, 20, 5, 5]),
        (100, (0.7, 0.2, 0.05, 0.05), [70, 20, 5, 5]),
        (40, (70, 20, 5, 5), [28, 8, 2, 2]),
        (50, (70, 20, 5, 5), [35, 10, 3, 2]),
        (30, (70, 20, 5, 5), [21, 6, 2, 1]),
        (41, (70, 20, 5, 5), [29, 8, 2, 2]),
        (52, (26, 13, 13), [26, 13, 13]),
        (100, (60, 40), [60, 40]),
        (100, None, [25, 25, 25, 25]),
        (50, None, [13, 13, 12, 12]),
        (99, (1, 1, 1), [33, 33, 33]),
        (5, (1, 0), [5, 0]),
    ],
)
def test_clusters_of_uneven_size(num_peers, shares, counts):
    clusters = cluster_of_peers(num_peers, len(counts), shares)
    assert np.bincount(clusters, minlength=len(counts)).tolist() == counts
    assert (np.diff(clusters) >= 0).all()


def test_shares_must_fit_the_clusters():
    with pytest.raises(ConfigError, match=r"3 shares.*4 clusters"):
        cluster_of_peers(100, 4, (50, 25, 25))


@FEW
@given(
    total=st.integers(0, 10_000),
    shares=st.lists(st.floats(0, 1000), min_size=1, max_size=20).filter(lambda s: sum(s) > 1e-3),
)
@example(total=40, shares=[70.0, 20.0, 5.0, 5.0])
def test_divide_by_largest_remainders(total, shares):
    whole = divide(total, shares)
    exact = total * np.array(shares) / np.sum(shares)
    assert whole.sum() == total
    assert (np.abs(whole - exact) < 1 + 1e-6).all()
    remainders = exact - np.floor(exact)
    up = whole > np.floor(exact)
    assert not up.any() or up.all() or remainders[up].min() >= remainders[~up].max() - 1e-6


def test_equal_sizes():
    assert EqualSizes().sizes(400, 5, np.random.default_rng(0)).tolist() == [400] * 5


@FEW
@given(
    mean=st.integers(1, 500),
    num_peers=st.integers(1, 60),
    exponent=st.floats(0, 5),
    smallest=st.integers(1, 20),
)
@example(mean=1, num_peers=7, exponent=2.0, smallest=1)
def test_skewed_sizes_keep_the_sum_and_the_smallest(mean, num_peers, exponent, smallest):
    smallest = min(smallest, mean)
    skewed = SkewedSizes(exponent=exponent, smallest=smallest)
    sizes = skewed.sizes(mean, num_peers, np.random.default_rng(0))
    assert sizes.shape == (num_peers,)
    assert sizes.sum() == mean * num_peers
    assert sizes.min() >= smallest


def test_skewed_sizes_fall_as_a_power_of_the_rank():
    sizes = SkewedSizes(exponent=2.0).sizes(400, 20, np.random.default_rng(0))
    ranked = np.sort(sizes)[::-1]
    assert ranked[0] > 0.6 * sizes.sum(), "heavily skewed"
    np.testing.assert_allclose((ranked - 1) * np.arange(1, 21) ** 2 / (ranked[0] - 1), 1, atol=0.1)
    zipf = np.sort(SkewedSizes(exponent=1.0).sizes(400, 20, np.random.default_rng(0)))[::-1]
    np.testing.assert_allclose((zipf - 1) * np.arange(1, 21) / (zipf[0] - 1), 1, atol=0.02)
    assert zipf[0] < ranked[0]
    even = SkewedSizes(exponent=0.0).sizes(400, 20, np.random.default_rng(0))
    assert even.tolist() == [400] * 20


def test_skewed_sizes_honour_the_smallest():
    sizes = SkewedSizes(exponent=3.0, smallest=50).sizes(60, 30, np.random.default_rng(0))
    assert sizes.min() == 50
    with pytest.raises(ConfigError, match=r"smallest is 61.*60"):
        SkewedSizes(smallest=61).sizes(60, 30, np.random.default_rng(0))


def test_who_gets_much_is_random():
    rich = {
        int(SkewedSizes(exponent=2.0).sizes(100, 20, np.random.default_rng(seed)).argmax())
        for seed in range(20)
    }
    assert len(rich) > 5


def test_listed_sizes_are_taken_as_given():
    listed = ListedSizes(listed=(5, 1, 80))
    assert listed.sizes(400, 3, np.random.default_rng(0)).tolist() == [5, 1, 80]
    splits = _split([_dataset()], [Concept("all")], [0] * 3, [5, 1, 80], 10)
    assert [(len(part.train), len(part.validation)) for part in splits] == [
        (5, 10),
        (1, 10),
        (80, 10),
    ]


@pytest.mark.parametrize("listed", [(5, 1), (5, 1, 80, 4), (5, 0, 80), (5, -1, 80), ()])
def test_listed_sizes_must_fit_the_peers(listed):
    with pytest.raises(ConfigError, match="3 peers"):
        ListedSizes(listed=listed).sizes(400, 3, np.random.default_rng(0))


def test_test_rows_have_the_training_proportions():
    train = np.array([0] * 60 + [1] * 30 + [2] * 10)
    test = np.arange(4).repeat(100)
    rows = matching_test_rows(train, test)
    assert np.bincount(test[rows], minlength=4).tolist() == [100, 50, 16, 0]
    assert len(np.unique(rows)) == len(rows)


def test_test_rows_are_as_many_as_the_proportions_allow():
    train, test = np.array([0, 1]), np.array([1] * 7 + [0] * 100)
    assert np.bincount(test[matching_test_rows(train, test)]).tolist() == [7, 7]
    equal = np.arange(5).repeat(20)
    assert matching_test_rows(equal, equal).tolist() == list(range(100))


def test_a_rare_label_is_tested_too():
    train, test = np.array([0] * 999 + [1]), np.arange(2).repeat(100)
    assert np.bincount(test[matching_test_rows(train, test)]).tolist() == [100, 1]


def test_labels_without_test_rows_do_not_take_the_others_rows_away():
    train, test = np.array([0] * 99 + [1]), np.zeros(100, dtype=np.int64)
    assert len(matching_test_rows(train, test)) == 100


@pytest.mark.parametrize(
    ("kind", "settings_"),
    [
        (Labels, {"kind": "dirichlet"}),
        (Labels, {"kind": "dirichlet", "alpha": 0}),
        (Labels, {"kind": "dirichlet", "alpha": -1}),
        (Labels, {"kind": "dirichlet", "alpha": float("nan")}),
        (Labels, {"kind": "dirichlet", "alpha": float("inf")}),
        (Labels, {"kind": "iid", "alpha": 1}),
        (Sizes, {"kind": "skewed", "exponent": -1}),
        (Sizes, {"kind": "skewed", "exponent": float("nan")}),
        (Sizes, {"kind": "skewed", "smallest": 0}),
        (Sizes, {"kind": "listed"}),
        (Sizes, {"kind": "zipf"}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_work_are_refused(kind, settings_):
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(settings_)
