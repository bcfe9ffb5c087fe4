"""The server: who may ask, what it answers, and what it outlives."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.lab.talking import SETTING, Talk, dial, origin
from websockets.exceptions import ConnectionClosed, InvalidStatus

import saddlescope as ss
from saddlescope.errors import InvalidInput
from saddlescope.lab import _session, open_lab
from saddlescope.lab._protocol import Kind, read_frame
from saddlescope.lab.server import Lab

HEAVY = {**SETTING, "method": {"kind": "descent", "learning_rate": 1e-4, "steps": 1_000_000}}
TOKEN = "abcdefgh-1234"


def get(
    lab: Lab, path: str = "/", headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=20)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{lab.port}", **(headers or {})}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def test_the_page_and_its_files_are_served(lab: Lab) -> None:
    status, headers, text = get(lab)
    assert status == 200
    assert "Saddlescope" in text
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    for name in ("main.js", "views/loss.js", "lab.css", "uPlot.iife.min.js"):
        assert get(lab, f"/page/{name}")[0] == 200


@pytest.mark.parametrize(
    "path", ["/page/../server.py", "/page/%2e%2e/server.py", "/page//etc/passwd", "/nothing"]
)
def test_nothing_else_is_served(lab: Lab, path: str) -> None:
    assert get(lab, path)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "", "[::1"])
def test_another_name_reaches_nothing(lab: Lab, host: str) -> None:
    name = host.format(port=lab.port)
    status, _, text = get(lab, headers={"Host": name})
    assert status in (400, 403)
    assert "Saddlescope" not in text


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}"])
def test_its_own_names_reach_it(lab: Lab, host: str) -> None:
    assert get(lab, headers={"Host": host.format(port=lab.port)})[0] == 200


@pytest.mark.parametrize("foreign", ["http://evil.example", "null", "http://127.0.0.1:1", None])
def test_another_page_reaches_nothing(lab: Lab, foreign: str | None) -> None:
    with pytest.raises(InvalidStatus) as refused, dial(lab, origin=foreign):
        pass
    assert refused.value.response.status_code == 403
    if foreign is not None:
        assert get(lab, headers={"Origin": foreign})[0] == 403


def test_the_answer_is_that_of_the_api(lab: Lab) -> None:
    setting = ss.Setting.from_dict(SETTING)
    with Talk(lab) as talk:
        talk.ask("run", SETTING)
        frames = talk.answers("prediction", "run", "law")
    prediction = ss.predict(setting, by="quadrature")
    header, arrays = frames["prediction"]
    assert header["plateau_losses"] == list(prediction.plateau_losses or ())
    assert header["stable_learning_rate"] == prediction.stable_learning_rate
    assert [one["times"] for one in header["drops"]] == [
        list(one.drop_times) for one in prediction.seeds
    ]
    np.testing.assert_allclose(arrays["amplitude"], ss.theory.modes(setting.task).amplitude)
    header, arrays = frames["run"]
    run = ss.train(setting)
    assert header["ended"] == ["finished"] * 3
    np.testing.assert_allclose(arrays["loss"], run.loss, rtol=1e-9)
    np.testing.assert_array_equal(arrays["time"], run.time)
    np.testing.assert_array_equal(arrays["step"], run.dataset["step"])
    for name in ("v", "k", "q", "effective_map", "key_value_balance"):
        exact = run.dataset[name].to_numpy()
        np.testing.assert_allclose(arrays[name], exact, rtol=1e-6, atol=1e-9)
    law = ss.theory.drop_time_law(setting.model, setting.task, 0.1, sampled_heads=2**14)  # type: ignore[arg-type]
    header, arrays = frames["law"]
    # Of a quarter as many heads.
    assert header["median"] == pytest.approx(float(law.quantiles([0.5])[0]), rel=0.05)
    assert np.trapezoid(arrays["density"], arrays["time"]) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize(("asked", "shown"), [(1, 1), (7, 2)])
def test_the_seed_that_is_shown_comes_before_all_of_them(lab: Lab, asked: int, shown: int) -> None:
    with Talk(lab) as talk:
        talk.ask("run", SETTING, shown=asked)
        header, alone = talk.answers("run")["run"]
        assert header["shown"] == shown
        header, whole = talk.answers("run")["run"]
        assert header["shown"] is None
    assert set(alone) == set(whole)
    for name, array in whole.items():
        of_all = name in ("loss", "time", "step")
        np.testing.assert_array_equal(
            alone[name], array if of_all else array[shown : shown + 1], err_msg=name
        )


def test_no_setting_of_a_shape_compiles_anew(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from saddlescope.running import programs

    # Far from the number at which programs are let go, which those of other tests count towards.
    monkeypatch.setattr(programs, "_count", 0)
    with Talk(lab) as talk:
        for heads, spectrum, seeds, rate in (
            (5, [0.4, 0.3, 0.2, 0.1], 6, 0.3),
            (1, [0.7], 1, 0.5),
            (4, [0.7, 0.2], 8, 90.0),
        ):
            model, task = {**SETTING["model"], "heads": heads}, {**SETTING["task"]}
            task["spectrum"] = spectrum
            method = {**SETTING["method"], "learning_rate": rate}
            changes = {"model": model, "task": task, "method": method, "seeds": seeds}
            talk.ask("run", {**SETTING, **changes})
            header, arrays = talk.answers("run")["run"]
            assert arrays["v"].shape[::2] == (seeds, heads)
            assert header["share"] == 1
            assert (set(header["ended"]) == {"diverged"}) == (rate == 90.0)
        assert programs._count == 0


def test_prompts_and_algorithms(lab: Lab) -> None:
    setting = ss.Setting.from_dict(SETTING)
    with Talk(lab) as talk:
        talk.ask("prompts", SETTING, seed=5)
        header, arrays = talk.answers("prompts")["prompts"]
    drawn = setting.task.sample(256, seed=5)  # type: ignore[attr-defined]
    known = ss.theory.algorithms(setting.task)
    assert header["names"] == [one.name for one in known]
    np.testing.assert_array_equal(arrays["x"], drawn.x[0])
    np.testing.assert_allclose(arrays["answers"], [one(drawn) for one in known])


def test_a_setting_that_is_out_of_bounds_is_refused_with_the_reason(lab: Lab) -> None:
    with Talk(lab) as talk:
        talk.ask("run", {**SETTING, "seeds": 10**9})
        header, _ = talk.answers("refused")["refused"]
        assert header["field"] == "seeds"
        assert header["reason"].startswith("seeds = 1000000000: the lab takes")
        talk.ask("run", SETTING)
        assert talk.answers("run")["run"][0]["share"] == 1


def test_a_run_and_prompts_are_refused_each_for_itself() -> None:
    async def post_both() -> list[object]:
        sent: list[object] = []

        class Page:
            async def send_bytes(self, frame: bytes) -> None:
                sent.append(read_frame(frame)[0]["asked"])

        mailbox = _session.Mailbox()
        for asked in ("run", "prompts", "prompts"):
            mailbox.post(Kind.REFUSED, 1, {"reason": "", "field": None, "asked": asked}, {})
        delivery = asyncio.create_task(mailbox.deliver(Page()))  # type: ignore[arg-type]
        # The posts, then the delivery.
        for _ in range(3):
            await asyncio.sleep(0)
        delivery.cancel()
        return sent

    # In a thread of its own: a browser that another test has opened keeps a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, post_both()).result() == ["run", "prompts"]


@pytest.mark.parametrize("message", ["{", b"\x00\x01", "x" * 100_000, '{"ask": "run"}'])
def test_a_malformed_message_closes_its_connection_only(lab: Lab, message: str | bytes) -> None:
    with Talk(lab) as other, Talk(lab) as talk:
        talk.socket.send(message)
        with pytest.raises(ConnectionClosed):
            # What no page sends is not answered.
            talk.receive()
        other.ask("run", SETTING)
        assert other.answers("run")["run"][0]["share"] == 1


def test_a_newer_request_cancels_the_older_and_parts_come_before_the_whole(lab: Lab) -> None:
    with Talk(lab) as talk:
        heavy = talk.ask("run", HEAVY)
        while (header := talk.receive()[0])["kind"] != "run":
            pass
        assert header["number"] == heavy
        assert 0 < header["share"] < 1
        light = talk.ask("run", SETTING)
        begun = time.monotonic()
        while (header := talk.receive()[0])["number"] != light or header["kind"] != "law":
            # What was on its way may still come; it is never the whole of the older one.
            assert header["number"] == light or header.get("share", 0) < 1
        assert time.monotonic() - begun < 10


def test_ten_tabs_are_answered_beside_a_heavy_one(lab: Lab) -> None:
    with Talk(lab) as busy:
        busy.ask("run", HEAVY)
        tabs = [Talk(lab) for _ in range(10)]
        for tab in tabs:
            tab.ask("run", SETTING)
        for tab in tabs:
            assert tab.answers("run")["run"][0]["share"] == 1
            tab.close()


def test_a_crash_in_one_simulation_leaves_the_server_up(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*given: object) -> None:
        raise ZeroDivisionError("of a simulation")

    with Talk(lab) as talk:
        with monkeypatch.context() as patched:
            patched.setattr(_session.Simulator, "run", crash)
            talk.ask("run", SETTING)
            header, _ = talk.answers("refused")["refused"]
        assert "ZeroDivisionError" in header["reason"]
        talk.ask("run", SETTING)
        assert talk.answers("run")["run"][0]["share"] == 1


def test_a_page_that_goes_stops_its_run(lab: Lab) -> None:
    with Talk(lab) as talk:
        talk.ask("run", HEAVY)
        while talk.receive()[0]["kind"] != "run":
            pass
    deadline = time.monotonic() + 20
    while any(own.name.startswith("saddlescope-lab") and own.is_alive() for own in _busy(lab)):
        assert time.monotonic() < deadline, "the run of a page that has gone goes on"


def _busy(lab: Lab) -> list[threading.Thread]:
    """The threads, while somebody holds a place to compute at."""
    turns = lab._engine.simulator._turns
    return [] if turns._free == turns._places else threading.enumerate()


@pytest.fixture
def guarded() -> Iterator[Lab]:
    served = Lab(port=0, token=TOKEN, warm_up=False)
    yield served
    served.close()


def test_a_token_is_needed_where_there_is_one(guarded: Lab) -> None:
    assert get(guarded)[0] == 403
    assert get(guarded, "/?token=wrong")[0] == 403
    status, headers, _ = get(guarded, f"/?token={TOKEN}")
    assert status == 200
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert get(guarded, "/page/main.js", {"Cookie": cookie})[0] == 200
    with pytest.raises(InvalidStatus), dial(guarded):
        pass
    with dial(guarded, query=f"?token={TOKEN}") as socket:
        assert socket.recv(timeout=20)
    assert guarded.address.endswith(f"?token={TOKEN}")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"host": "0.0.0.0"}, "host"),
        ({"host": "192.0.2.1"}, "host"),
        ({"host": "example.org"}, "host"),
        ({"token": "short"}, "token"),
        ({"token": "with spaces in it"}, "token"),
        ({"port": 70_000}, "port"),
        ({"port": -1}, "port"),
        ({"port": "usual"}, "port"),
        ({"setting": "separate"}, "setting"),
    ],
)
def test_what_cannot_be_served_is_refused(options: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Lab(warm_up=False, **options)  # type: ignore[arg-type]
    assert refused.value.field == field


@pytest.mark.parametrize("host", ["a\0b", "ä" * 70])
def test_what_no_host_can_be_called_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"host = .*: cannot be listened on"):
        Lab(host=host, port=0, token="a-secret-token", warm_up=False)


def test_a_system_without_ipv6_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr("socket.socket", unsupported)
    with pytest.raises(InvalidInput, match="host = '::1': cannot be listened on: Address family"):
        Lab(host="::1", port=0, warm_up=False)


def test_a_port_that_is_taken_is_named(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match=f"port = {lab.port}: cannot be listened on"):
        Lab(port=lab.port, warm_up=False)


def test_open_lab_shows_the_page_at_a_setting() -> None:
    setting = ss.Setting.from_dict(SETTING)
    served = open_lab(setting, port=0, warm_up=False)
    try:
        shown = served._repr_html_()
        assert "<iframe" in shown
        assert f"{origin(served)}/#model=separate" in shown
        assert "heads=3" in served.address
    finally:
        served.close()
    with pytest.raises(InvalidInput, match=r"model.heads = 40"):
        open_lab(setting.replace(heads=40), warm_up=False)


def test_the_header_of_a_frame_is_plain_json(lab: Lab) -> None:
    with dial(lab) as socket:
        frame = socket.recv(timeout=20)
    assert isinstance(frame, bytes)
    length = int.from_bytes(frame[:4], "little")
    assert json.loads(frame[4 : 4 + length])["kind"] == "hello"
