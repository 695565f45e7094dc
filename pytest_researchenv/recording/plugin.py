"""The recording as pytest sees it: registered only where an agent was chosen or a report was asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import final

import pytest
from packaging.requirements import Requirement

from pytest_researchenv.cases import case_of, distinct_cases, research_case_of, tiers_of
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.fixtures import JUDGED, OPENED, harness_of
from pytest_researchenv.live import LISTENER
from pytest_researchenv.lock import dataset_digest
from pytest_researchenv.manifest import EngineFacts, Manifest
from pytest_researchenv.options import (
    agent_settings,
    chosen_agents,
    continued_option,
    path_option,
    run_option,
    text_option,
)
from pytest_researchenv.recording.activity import ActivityWriter
from pytest_researchenv.recording.earlier import earlier_sessions, newest_log
from pytest_researchenv.recording.entry import LOG, Entry, Finishing, excerpt_of, plain
from pytest_researchenv.recording.journal import Began, Collected, Finished, Journal
from pytest_researchenv.recording.manifest import begun, ended, save_manifest, without_secrets
from pytest_researchenv.recording.reports import Reports
from pytest_researchenv.redaction import Redactor, secrets_in
from pytest_researchenv.store import Store
from pytest_researchenv.xdist import SESSION


__all__ = ["JOURNAL", "Journaling", "Recording", "Watchable", "record"]

_log = logging.getLogger(__name__)

#: The session's journal, where there is one.
JOURNAL = pytest.StashKey[Journal]()

#: Name of this package's distribution.
_OURS = "pytest-researchenv"


def record(config: pytest.Config) -> None:
    """Register what a session is to record: on the controller and on workers."""
    worker = str(getattr(config, "workerinput", {}).get("workerid", ""))
    agents = chosen_agents(config)
    if agents:
        config.stash[JOURNAL] = Journal(_run_folder(config), config.stash[SESSION])
        journaling = Journaling(config.stash[JOURNAL], worker)
        config.stash[OPENED] = journaling.opened
        config.pluginmanager.register(journaling, "researchenv-journal")
        activity = _activity(config, worker)
        config.stash[LISTENER] = activity.hear
        config.pluginmanager.register(Watchable(activity), "researchenv-activity")
    junit, ctrf = (path_option(config, name) if text_option(config, name) else None for name in ("junit", "ctrf"))
    if not worker and (agents or junit or ctrf):
        run = (run_option(config) or "default") if agents else ""
        reports = Reports(run, config.stash[SESSION], junit=junit, ctrf=ctrf) if junit or ctrf else None
        config.pluginmanager.register(Recording(config, reports), "researchenv-recording")


def _run_folder(config: pytest.Config) -> Path:
    return path_option(config, "results") / (run_option(config) or "default")


def _activity(config: pytest.Config, worker: str) -> ActivityWriter:
    return ActivityWriter(
        _run_folder(config),
        config.stash[SESSION],
        worker,
        max_cost_usd=agent_settings(config).max_cost_usd,
        redactor=lambda: harness_of(config).environments.redactor,
    )


@final
class Watchable:
    """Keeps up what tells others what this process is doing, from its first test to its last."""

    def __init__(self, activity: ActivityWriter) -> None:
        self._activity = activity

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Begin."""
        self._activity.start()
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End."""
        self._activity.close()


@final
class Journaling:
    """Writes the journal: each process of what it does itself, and the controller of processes that died."""

    def __init__(self, journal: Journal, worker: str) -> None:
        self._journal = journal
        self._worker = worker
        self._finishing = Finishing()
        self._began: Began | None = None

    def opened(self, engine: Engine) -> None:
        """Say what the container engine is."""
        hardware = engine.hardware
        self._append(
            EngineFacts(
                engine=engine.version,
                base_image=engine.base_image,
                accelerator=hardware.accelerator,
                devices=tuple(device.name for device in hardware.devices),
                driver=hardware.driver,
                cuda=".".join(map(str, hardware.cuda)) if any(hardware.cuda) else "",
                reason=hardware.reason,
                worker=self._worker,
            )
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Say what will be tested; of workers, who all have the same tests, the first does."""
        if session.items and self._worker in ("", "gw0"):
            folders = {Path(case.repository.folder).parent for case in distinct_cases(session.items)}
            research = filter(None, map(research_case_of, session.items))
            folders |= {Path(case.task.folder).parent for case in research}
            try:
                suites = {folder.name: dataset_digest(folder) for folder in sorted(folders)}
            except ConfigurationError as error:
                raise pytest.UsageError(str(error)) from error
            self._append(Collected(len(session.items), suites))
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Say that a test begins."""
        case, subjects = case_of(item), tiers_of(item)
        began = Began(plain(item.nodeid), time.time(), worker=self._worker)
        if case and subjects:
            about = (str(case.agent), case.repository.key, str(subjects[0]), case.trial)
            began = Began(began.test, began.at, *about, worker=self._worker)
        self._began = began
        self._append(began)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Have the end of the probe's log travel with the report."""
        report = yield
        judged = item.stash.get(JUDGED, None)
        if report.when == "call" and judged and judged.folder:
            setattr(report, LOG, excerpt_of(judged.folder / judged.result.log))
        elif report.when == "setup" and report.failed and self._began and self._began.subject:
            setattr(report, LOG, self._newest_log(self._began))
        return report

    def _newest_log(self, began: Began) -> str:
        folder = self._journal.path.parent
        try:
            return newest_log(began, self._journal.session, Store(folder.parent, folder.name))
        except StoreError:
            # The test's own error says it.
            return ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Say what a test came to; what workers report they have said themselves."""
        of_worker = hasattr(report, "node") and report.when in ("setup", "call", "teardown")
        if not of_worker and (entry := self._finishing.feed(report)):
            self._append(Finished(entry))

    def _append(self, line: Began | Collected | EngineFacts | Finished) -> None:
        try:
            self._journal.append(line)
        except StoreError:
            # Tests that need the store say so, as errors with reports of their own.
            _log.exception("the journal is not complete")


@final
class Recording:
    """Keeps the manifest and the reports, on the controller.

    Args:
        config: pytest's.
        reports: the files that were asked for, if any.
    """

    def __init__(self, config: pytest.Config, reports: Reports | None) -> None:
        self._config = config
        self._reports = reports
        self._finishing = Finishing()
        self._manifest: Manifest | None = None
        self._started = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Write what is known before the first test: after all that can make a call a wrong one."""
        config = self._config
        try:
            if JOURNAL in config.stash:
                self._manifest = _manifest(config)
                save_manifest(_run_folder(config), self._manifest)
            if self._reports:
                self._reports.start(self._earlier())
        except (ConfigurationError, StoreError) as error:
            raise pytest.UsageError(str(error)) from error
        self._started = True
        return (yield)

    def _earlier(self) -> list[tuple[str, tuple[Entry, ...]]]:
        if JOURNAL not in self._config.stash or not continued_option(self._config):
            return []
        folder = _run_folder(self._config)
        found = earlier_sessions(Store(folder.parent, folder.name), but=self._config.stash[SESSION])
        return [(earlier.session, earlier.entries) for earlier in found]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what is reported, by workers, too."""
        if self._reports and (entry := self._finishing.feed(report)):
            self._reports.add(entry)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write what is known in the end."""
        if self._reports and self._started:
            self._reports.finish()
        if self._manifest is None:
            return
        try:
            save_manifest(
                _run_folder(self._config),
                ended(self._manifest, self._config.stash[JOURNAL], exit_status=int(exitstatus)),
            )
        except StoreError:
            _log.exception("the session's record has no end")

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Say where the reports are."""
        yield
        for line in self._reports.lines if self._reports and self._started else ():
            terminalreporter.write_line(f"researchenv: {line}")


def _manifest(config: pytest.Config) -> Manifest:
    invocation = config.invocation_params
    redact = _redacting(config)
    return begun(
        session=config.stash[SESSION],
        run=run_option(config) or "default",
        command=without_secrets(["pytest", *map(str, invocation.args)], redact),
        agents=chosen_agents(config),
        distributions=_distributions(config),
        folder=invocation.dir,
    )


def _redacting(config: pytest.Config) -> Callable[[str], str]:
    known = harness_of(config).environments.keys_of(chosen_agents(config))

    def redact(text: str) -> str:
        # Keys of the chosen agents, and passwords in addresses.
        redactor = Redactor((*known, *secrets_in({"password": text})))
        return redactor.bytes(text.encode("utf-8", "backslashreplace")).decode()

    return redact


def _distributions(config: pytest.Config) -> set[str]:
    try:
        needed = [Requirement(line) for line in requires(_OURS) or ()]
    except PackageNotFoundError:
        needed = []
    plugins = {distribution.metadata["name"] for _, distribution in config.pluginmanager.list_plugin_distinfo()}
    return {one.name for one in needed if one.marker is None or one.marker.evaluate()} | plugins | {"pluggy"}
