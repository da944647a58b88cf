"""Shifts: what each kind makes of the clusters' images and labels."""

from itertools import combinations

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from coterie.data.cifar100_names import CIFAR100_CLASSES
from coterie.data.labelled_dataset import Dataset
from coterie.data.shifts import (
    Concept,
    DatasetShift,
    LabelShift,
    LabelSwapShift,
    NoShift,
    RandomLabelShift,
    RotationShift,
    Shift,
    SuperclassShift,
    check_labels,
)
from coterie.errors import ConfigError, DataError

SUPERCLASSES = [
    "aquatic_mammals",
    "fish",
    "flowers",
    "food_containers",
    "fruit_and_vegetables",
    "household_electrical_devices",
    "household_furniture",
    "insects",
    "large_carnivores",
    "large_man-made_outdoor_things",
    "large_natural_outdoor_scenes",
    "large_omnivores_and_herbivores",
    "medium_mammals",
    "non-insect_invertebrates",
    "people",
    "reptiles",
    "small_mammals",
    "trees",
    "vehicles_1",
    "vehicles_2",
]
# The coarse label of each fine label, in the order of the official files.
COARSE = [
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13, 15,
    3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4,
    2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
]  # fmt: skip
ANIMALS = (0, 1, 15, 7, 8, 11, 12, 13, 16, 14)
PLANTS_AND_FOOD = (2, 3, 4, 17, 10)
THINGS = (5, 6, 9, 18, 19)
SWAP_LABELS = (0, 1, 3, 4, 5, 7, 8, 9)


def _dataset(classes=10, name="letters", missing=(), missing_in_test=()):
    """Two samples of each label, apart from those missing."""
    names = tuple(classes) if not isinstance(classes, int) else tuple(map(str, range(classes)))
    labels = np.arange(len(names)).repeat(2)
    train = labels[~np.isin(labels, missing)]
    test = labels[~np.isin(labels, missing_in_test)]
    return Dataset(
        name,
        np.zeros((len(train), 1, 2, 2), np.uint8),
        train,
        np.zeros((len(test), 1, 2, 2), np.uint8),
        test,
        names,
    )


def _superclass_shift(groups):
    return SuperclassShift(groups=tuple(tuple(SUPERCLASSES[n] for n in group) for group in groups))


def test_no_shift_makes_one_concept_of_everything():
    (concept,) = NoShift().concepts([_dataset()], 0)
    targets = np.array([3, 1, 4, 1, 5])
    assert concept.candidates(targets).tolist() == [0, 1, 2, 3, 4]
    assert concept.relabel(targets).tolist() == [3, 1, 4, 1, 5]
    assert concept.rotation == 0
    assert concept.source == 0


def test_one_rotation_per_cluster():
    concepts = RotationShift(angles=(0, 180, 10, 350)).concepts([_dataset()], 0)
    assert [concept.rotation for concept in concepts] == [0, 180, 10, 350]
    assert len({concept.name for concept in concepts}) == 4
    assert all(len(concept.candidates(np.arange(10))) == 10 for concept in concepts)
    assert all(concept.relabel(np.arange(10)).tolist() == list(range(10)) for concept in concepts)


def test_label_groups_see_their_labels_only():
    vehicles, animals = LabelShift(groups=((0, 1, 8, 9), (2, 3, 4, 5, 6, 7))).concepts(
        [_dataset()], 0
    )
    targets = np.array([9, 2, 0, 7, 8, 1, 1, 5])
    assert vehicles.candidates(targets).tolist() == [0, 2, 4, 5, 6]
    assert animals.candidates(targets).tolist() == [1, 3, 7]
    np.testing.assert_array_equal(vehicles.relabel(targets), targets)
    assert vehicles.name != animals.name


def test_swapped_labels_mean_each_other():
    concept = Concept("swap", swaps=((0, 1), (3, 4)))
    targets = np.array([0, 1, 2, 3, 4, 5, 0])
    assert concept.relabel(targets).tolist() == [1, 0, 2, 4, 3, 5, 1]
    assert targets.tolist() == [0, 1, 2, 3, 4, 5, 0], "the dataset's own labels stay"
    np.testing.assert_array_equal(concept.relabel(concept.relabel(targets)), targets)


def test_the_offset_comes_after_the_swap():
    concept = Concept("both", swaps=((0, 10),), label_offset=10)
    assert concept.relabel(np.array([0, 10, 5])).tolist() == [20, 10, 15]


def test_four_concepts_of_swapped_labels():
    shift = LabelSwapShift(labels=SWAP_LABELS, swaps=((), ((0, 1),), ((3, 4),), ((5, 7),)))
    concepts = shift.concepts([_dataset()], 0)
    targets = np.arange(10)
    for concept in concepts:
        assert concept.candidates(targets).tolist() == list(SWAP_LABELS)
    kept = np.array(SWAP_LABELS)
    assert [concept.relabel(kept).tolist() for concept in concepts] == [
        [0, 1, 3, 4, 5, 7, 8, 9],
        [1, 0, 3, 4, 5, 7, 8, 9],
        [0, 1, 4, 3, 5, 7, 8, 9],
        [0, 1, 3, 4, 7, 5, 8, 9],
    ]
    assert len({concept.name for concept in concepts}) == 4


def test_swaps_choose_images_by_what_they_show():
    concept = Concept("swap", labels=(0, 2), swaps=((0, 1),))
    assert concept.candidates(np.array([0, 1, 2])).tolist() == [0, 2]


def test_superclasses_are_the_true_coarse_labels():
    source = _dataset(CIFAR100_CLASSES)
    groups = (ANIMALS, PLANTS_AND_FOOD, THINGS)
    concepts = _superclass_shift(groups).concepts([source], 0)
    for concept, group in zip(concepts, groups, strict=True):
        assert concept.labels == tuple(np.flatnonzero(np.isin(COARSE, group)))
    assert [len(concept.labels) for concept in concepts] == [50, 25, 25]
    assert sorted(sum((concept.labels for concept in concepts), ())) == list(range(100))


def test_superclasses_go_by_the_names_of_the_classes_not_by_their_order():
    source = _dataset(CIFAR100_CLASSES[::-1])
    (fish,) = _superclass_shift(((1,),)).concepts([source], 0)
    names = {source.classes[label] for label in fish.labels}
    assert names == {"aquarium_fish", "flatfish", "ray", "shark", "trout"}


def test_unknown_superclass_names_the_nearest():
    shift = SuperclassShift(groups=(("fishes",),))
    with pytest.raises(ConfigError, match=r"no superclass 'fishes'.*Did you mean 'fish'"):
        shift.concepts([_dataset(CIFAR100_CLASSES)], 0)


def test_superclasses_need_the_classes_of_cifar100():
    with pytest.raises(DataError, match="letters has no class"):
        SuperclassShift(groups=(("fish",),)).concepts([_dataset()], 0)


@pytest.mark.parametrize(("groups", "size"), [(2, 4), (5, 2), (3, 3), (1, 10)])
def test_random_label_groups_are_disjoint(groups, size):
    for seed in range(20):
        concepts = RandomLabelShift(groups=groups, size=size).concepts([_dataset()], seed)
        sets = [set(concept.labels) for concept in concepts]
        assert len(sets) == groups
        assert all(len(labels) == size and labels <= set(range(10)) for labels in sets)
        assert all(not first & second for first, second in combinations(sets, 2))


def test_random_label_groups_depend_on_the_seed_alone():
    shift = RandomLabelShift(groups=2, size=4)
    drawn = [shift.concepts([_dataset()], seed) for seed in range(20)]
    assert drawn == [shift.concepts([_dataset()], seed) for seed in range(20)]
    assert len({concepts[0].labels for concepts in drawn}) > 10
    seen = {label for concepts in drawn for concept in concepts for label in concept.labels}
    assert seen == set(range(10))


def test_random_label_groups_are_drawn_from_the_named_labels():
    shift = RandomLabelShift(groups=2, size=4, labels=SWAP_LABELS)
    first, second = shift.concepts([_dataset()], 3)
    assert sorted(first.labels + second.labels) == list(SWAP_LABELS)


def test_too_many_random_labels_are_refused():
    with pytest.raises(ConfigError, match=r"need 12 labels.*only 10"):
        RandomLabelShift(groups=3, size=4).concepts([_dataset()], 0)


def test_labels_named_twice_do_not_make_groups_overlap():
    with pytest.raises(ConfigError, match=r"need 4 labels.*only 2"):
        RandomLabelShift(groups=2, size=2, labels=(0, 1, 0, 1)).concepts([_dataset()], 0)


def test_every_dataset_becomes_a_cluster_with_its_labels_moved():
    sources = [_dataset(name="digits"), _dataset(name="clothes")]
    digits, clothes = DatasetShift(label_offsets=(0, 10)).concepts(sources, 0)
    targets = np.array([0, 9, 4])
    assert digits.relabel(targets).tolist() == [0, 9, 4]
    assert clothes.relabel(targets).tolist() == [10, 19, 14]
    assert [digits.source, clothes.source] == [0, 1]
    assert [digits.name, clothes.name] == ["digits", "clothes"]


def test_datasets_keep_their_labels_unless_told_otherwise():
    sources = [_dataset(name=name) for name in ("photo", "cartoon", "sketch")]
    concepts = DatasetShift().concepts(sources, 0)
    assert [concept.source for concept in concepts] == [0, 1, 2]
    assert all(concept.relabel(np.array([6])).tolist() == [6] for concept in concepts)


def test_offsets_must_fit_the_datasets():
    with pytest.raises(ConfigError, match="3 numbers for 2 datasets"):
        DatasetShift(label_offsets=(0, 10, 20)).concepts([_dataset(), _dataset()], 0)


def test_offsets_that_make_labels_negative_are_refused():
    with pytest.raises(ConfigError, match="label_offsets"):
        DatasetShift(label_offsets=(0, -1)).concepts([_dataset(), _dataset()], 0)


def test_a_label_swapped_twice_is_refused():
    with pytest.raises(ConfigError, match="swap"):
        LabelSwapShift(swaps=(((0, 1), (1, 2)),)).concepts([_dataset()], 0)


@pytest.mark.parametrize(
    ("concept", "source", "message"),
    [
        (Concept("far", labels=(0, 10)), _dataset(), "label 10.*no train image.*labels are 0 to 9"),
        (Concept("rare", labels=(1, 3)), _dataset(missing=[3]), "label 3.*no train image"),
        (Concept("rare", labels=(3,)), _dataset(missing_in_test=[3]), "label 3.*no test image"),
        (Concept("swap", swaps=((2, 11),)), _dataset(), "label 11.*no train image"),
    ],
)
def test_a_label_without_a_single_image_is_refused(concept, source, message):
    fine = Concept("fine", labels=(0, 1))
    with pytest.raises(DataError, match=f"Cluster 1 .*{concept.name}.*{message}"):
        check_labels([fine, concept], [source])


def test_labels_are_looked_up_in_the_concepts_own_dataset():
    small, large = _dataset(4, "small"), _dataset(8, "large")
    with pytest.raises(DataError, match="small has no train image"):
        check_labels([Concept("a", source=0, labels=(6,))], [small, large])
    check_labels([Concept("b", source=1, labels=(6,))], [small, large])
    assert Concept("b", source=1, labels=(6,)).candidates(large.targets).tolist() == [12, 13]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"kind": "none"}, NoShift),
        ({"kind": "rotation", "angles": [0, 90]}, RotationShift),
        ({"kind": "labels", "groups": [[0], [1]]}, LabelShift),
        ({"kind": "random-labels"}, RandomLabelShift),
        ({"kind": "superclasses", "groups": [["fish"]]}, SuperclassShift),
        ({"kind": "label-swap", "swaps": [[], [[0, 1]]]}, LabelSwapShift),
        ({"kind": "datasets"}, DatasetShift),
    ],
)
def test_kinds_are_chosen_by_name(settings, kind):
    assert type(TypeAdapter(Shift).validate_python(settings)) is kind


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "rotations", "angles": [0]},
        {"kind": "rotation", "angles": []},
        {"kind": "rotation", "angle": [0]},
        {"kind": "rotation", "angles": [float("nan")]},
        {"kind": "rotation", "angles": [float("inf")]},
        {"kind": "labels", "groups": []},
        {"kind": "label-swap", "swaps": [[[0, 1, 2]]]},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(ValidationError):
        TypeAdapter(Shift).validate_python(settings)
