"""What peer.yaml may say, and what is refused before anything is started."""

import pytest

from coterie.errors import ConfigError
from coterie.peer.peer_config import ENDLESS_ROUNDS, PeerConfig
from coterie.settings import parse_settings

GIVEN = {"data": {"file": "a.npz"}, "model": {"name": "digits-cnn"}}


def config(**changes):
    return parse_settings(PeerConfig, GIVEN | changes)


def test_a_single_file_is_enough():
    (step,) = config().data
    assert (step.round, str(step.file)) == (0, "a.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lisen": "a:1"}, "There is no setting 'lisen'. Did you mean 'listen'"),
        ({"listen": "nowhere"}, "nowhere"),
        ({"advertise": "0.0.0.0:7300"}, "no other peer can reach it"),
        ({"advertise": "[::]:7300"}, "no other peer can reach it"),
        ({"known": ["a:1", "b:99999"]}, "b:99999"),
        ({"data": {}}, "either a file or a function"),
        ({"data": {"file": "a.npz", "function": "a:b"}}, "either a file or a function"),
        ({"data": {"function": "os.system('x')"}}, "data.0.function"),
        ({"data": [{"file": "a.npz", "round": 3}]}, "begin at round 0"),
        ({"data": [{"file": "a.npz"}, {"file": "b.npz"}]}, "begin at round 0"),
        ({"model": {"name": "a", "function": "a:b"}}, "by its name or a function"),
        ({"strategy": {"name": "oracle"}}, "needs the true clusters"),
        ({"strategy": {"name": "fedavg"}}, "needs a server"),
        ({"strategy": {"name": "dac", "tua": 3}}, "Did you mean 'tau'"),
        ({"synchronous": True}, "synchronous needs rounds"),
        ({"roster": ["abc"]}, "roster.0"),
        ({"watch": {"peers": [1]}}, "cannot watch others"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    assert message in str(caught.value)


def test_options_left_out_are_written_out():
    assert config(strategy={"name": "dac", "tau": 7.0}).strategy["fetches"] == 5


def test_without_a_strategy_it_is_kin():
    assert config().make_strategy().name == "kin"
    assert config(strategy={"fetches": 2}).strategy["name"] == "kin"


def test_without_rounds_it_goes_on_and_beliefs_are_recorded_now_and_then():
    settings = config().simulation_settings()
    assert settings.rounds == ENDLESS_ROUNDS
    assert settings.rounds / settings.watch.beliefs == 10
    assert config(rounds=7).simulation_settings().watch.beliefs == 20
