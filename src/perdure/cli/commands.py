"""Every command: its group, its function, a line about it and two examples. Nothing is imported for it."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command: where its function is, and one line about it."""

    group: str
    target: str
    summary: str
    examples: tuple[str, str]


GROUPS = {
    "look": "what is stored, and what happened",
    "travel": "other points of a thread",
    "run": "start and continue work",
    "people": "questions that wait for a person",
    "care": "keep a store healthy",
    "start here": "the first minutes",
}

COMMANDS = {
    "threads": Command(
        "look", "perdure.cli.inspect:threads", "List threads, those that changed last first.",
        ("perdure threads --status input_required", "perdure threads --search ticket -o json"),
    ),
    "show": Command(
        "look", "perdure.cli.inspect:show", "Show a thread: its status, run, questions, checkpoints and sizes.",
        ("perdure show ticket-42", "perdure show ticket-42 -o json"),
    ),
    "state": Command(
        "look", "perdure.cli.inspect:state", "Print the state of a thread at a point.",
        ("perdure state ticket-42", "perdure state ticket-42@before-error --path context.city"),
    ),
    "messages": Command(
        "look", "perdure.cli.inspect:messages", "Print the newest messages of a thread.",
        ("perdure messages ticket-42", 'perdure messages ticket-42 --search refund --limit 5'),
    ),
    "timeline": Command(
        "look", "perdure.cli.timeline:timeline", "Say who did what in a thread, and when.",
        ("perdure timeline ticket-42", "perdure timeline ticket-42 --after 100 --limit 20"),
    ),
    "history": Command(
        "look", "perdure.cli.inspect:history", "List the checkpoints of a thread, newest first.",
        ("perdure history ticket-42", "perdure history ticket-42 --kind manual -o csv"),
    ),
    "tree": Command(
        "look", "perdure.cli.inspect:tree", "Draw the forks of a thread: which began where.",
        ("perdure tree ticket-42", "perdure tree ticket-42 -o json"),
    ),
    "compare": Command(
        "look", "perdure.cli.compare:compare", "Say how two to four points of threads differ.",
        ("perdure compare ticket-42@-2 ticket-42", "perdure compare ticket-42 what-if --patch"),
    ),
    "why": Command(
        "look", "perdure.cli.runs:why", "Say what happened to a thread, and what to type next.",
        ("perdure why ticket-42", "perdure why ticket-42 -o json"),
    ),
    "runs": Command(
        "look", "perdure.cli.runs:runs", "List the newest run of each thread: what became of it, and why.",
        ("perdure runs --status failed", "perdure runs --stalled 10m"),
    ),
    "top": Command(
        "look", "perdure.cli.top:top", "Watch runs as they work.",
        ("perdure top", "perdure top --once"),
    ),
    "fork": Command(
        "travel", "perdure.cli.travel:fork", "Begin a new thread at a point of another, with changes if you like.",
        ("perdure fork ticket-42@12 --to what-if", "perdure fork ticket-42@12 --to fixed --set context.city=Rome"),
    ),
    "rewind": Command(
        "travel", "perdure.cli.travel:rewind", "Go back to an earlier state of a thread.",
        ("perdure rewind ticket-42@12 --dry-run", "perdure rewind ticket-42@-2 --yes"),
    ),
    "redo": Command(
        "travel", "perdure.cli.travel:redo", "Take the newest rewind of a thread back.",
        ("perdure redo ticket-42", "perdure redo ticket-42 -o json"),
    ),
    "tag": Command(
        "travel", "perdure.cli.travel:tag", "Give a point of a thread a name, list the names, or remove one.",
        ("perdure tag ticket-42@12 good", "perdure tag ticket-42"),
    ),
    "rerun": Command(
        "travel", "perdure.cli.travel:rerun", "Run again from a point, on a fork.",
        ("perdure rerun ticket-42@12 --handlers agents.py", "perdure rerun ticket-42 --handlers my.agents --set n=2"),
    ),
    "start": Command(
        "run", "perdure.cli.runs:start", "Queue a run of a handler in a thread.",
        ("perdure start support ticket-42 --input '\"hi\"'", "perdure start support ticket-42 --key order-17"),
    ),
    "resume": Command(
        "run", "perdure.cli.worker:resume", "Continue the unfinished run of a thread, here and now.",
        ("perdure resume ticket-42 --handlers agents.py", "perdure resume ticket-42 --handlers my.agents:register"),
    ),
    "cancel": Command(
        "run", "perdure.cli.runs:cancel", "End the unfinished run of a thread.",
        ("perdure cancel ticket-42", "perdure cancel ticket-42 --reason 'asked twice'"),
    ),
    "signal": Command(
        "run", "perdure.cli.runs:signal", "Send a value to the run of a thread.",
        ("perdure signal ticket-42 paid", "perdure signal ticket-42 paid '{\"amount\": 5}' --key invoice-3"),
    ),
    "run": Command(
        "run", "perdure.cli.workflow:run", "Run a workflow file until it ends or waits for a person.",
        ("perdure run workflow.yaml --handlers release.py --input service=api",
         "perdure run workflow.yaml --handlers release.py --thread release-17"),
    ),
    "worker": Command(
        "run", "perdure.cli.worker:worker", "Take up runs as they become due, until SIGTERM.",
        ("perdure worker agents.py", "perdure worker my.agents:register --concurrency 4"),
    ),
    "pauses": Command(
        "people", "perdure.cli.pauses:pauses", "List the questions that wait for a person.",
        ("perdure pauses", "perdure pauses ticket-42 -o json"),
    ),
    "approve": Command(
        "people", "perdure.cli.pauses:approve", "Approve what a question asks for.",
        ("perdure approve pau_3f9a1c2b --by ann", "perdure approve pau_3f9a1c2b --args '{\"env\": \"test\"}'"),
    ),
    "deny": Command(
        "people", "perdure.cli.pauses:deny", "Deny what a question asks for.",
        ("perdure deny pau_3f9a1c2b --by ann", "perdure deny pau_3f9a1c2b --by ann --text 'not on a Friday'"),
    ),
    "answer": Command(
        "people", "perdure.cli.pauses:answer", "Answer a question that expects a text, a choice, a form or a result.",
        ("perdure answer pau_3f9a1c2b eu --by ann", "perdure answer pau_3f9a1c2b '{\"replicas\": 3}' --by ann"),
    ),
    "decide": Command(
        "people", "perdure.cli.pauses:decide", "Answer a question that waits.",
        ("perdure decide pau_3f9a1c2b", "perdure decide pau_3f9a1c2b --approve --by ann --choice eu"),
    ),
    "prune": Command(
        "care", "perdure.cli.prune:prune", "Drop the points that a policy does not keep.",
        ("perdure prune --last 3 --dry-run", "perdure prune --kind routine=days:7 --yes"),
    ),
    "compact": Command(
        "care", "perdure.cli.compact:compact", "Give disk space that nothing uses any more back to the system.",
        ("perdure compact", "perdure compact -o json"),
    ),
    "sizes": Command(
        "care", "perdure.cli.sizes:sizes", "Say where the bytes of a store or of a thread are.",
        ("perdure sizes", "perdure sizes ticket-42 --depth 3"),
    ),
    "verify": Command(
        "care", "perdure.cli.verify:verify", "Check every log, every whole state, every index.",
        ("perdure verify", "perdure verify ticket-42 --restore"),
    ),
    "repair": Command(
        "care", "perdure.cli.verify:repair", "Make every index and snapshot again from the logs.",
        ("perdure repair", "perdure repair ticket-42"),
    ),
    "export": Command(
        "care", "perdure.cli.export:export", "Write a thread into one file that any store can import.",
        ("perdure export ticket-42 ticket-42.perdure", "perdure export ticket-42 all.perdure --forks"),
    ),
    "import": Command(
        "care", "perdure.cli.import_:import_", "Add the threads of an export to a store.",
        ("perdure import ticket-42.perdure --user alice", "perdure import backup.perdure --user-from-file --trust"),
    ),
    "copy": Command(
        "care", "perdure.cli.copy:copy", "Copy threads from one store to another.",
        ("perdure copy sqlite:///agents.db file:./copy", "perdure copy file:./agents sqlite:///agents.db --user alice"),
    ),
    "delete": Command(
        "care", "perdure.cli.delete:delete", "Delete threads with everything that belongs to them.",
        ("perdure delete ticket-42 --dry-run", "perdure delete ticket-42 ticket-43 --yes"),
    ),
    "forget": Command(
        "care", "perdure.cli.forget:forget", "Erase everything of a user, after showing what there is.",
        ("perdure forget alice --dry-run", "perdure forget alice --yes"),
    ),
    "views": Command(
        "care", "perdure.cli.views:views", "Bring SQL views of states and messages up with the logs.",
        ("perdure views", "perdure views --drop"),
    ),
    "doctor": Command(
        "care", "perdure.cli.doctor:doctor", "Look at the installation, the store and the machine.",
        ("perdure doctor", "perdure doctor --store postgresql://host/agents"),
    ),
    "usage": Command(
        "look", "perdure.cli.usage:usage", "Total tokens, calls, retries and money of models.",
        ("perdure usage --by day", "perdure usage --by model --price mini=0.15:0.6"),
    ),
    "schema": Command(
        "care", "perdure.cli.schema:schema", "Print the SQL that sets up a store.",
        ("perdure schema sqlite:///agents.db", "perdure schema postgresql://host/db --schema agents"),
    ),
    "restored": Command(
        "care", "perdure.cli.restored:restored", "Make a store that was restored from a backup safe to use.",
        ("perdure restored", "perdure restored --by ann"),
    ),
    "key": Command(
        "care", "perdure.cli.key:key", "Show, add or remove keys that sign exports.",
        ("perdure key list", "perdure key show"),
    ),
    "trust": Command(
        "care", "perdure.cli.trust:trust", "Let imported threads run, after showing what would go on.",
        ("perdure trust ticket-42 --dry-run", "perdure trust --file ticket-42.perdure --yes"),
    ),
    "init": Command(
        "start here", "perdure.cli.init:init", "Make a project folder that is ready to run offline.",
        ("perdure init my-agent", "perdure init"),
    ),
    "demo": Command(
        "start here", "perdure.cli.demo:demo", "Kill an agent for real and watch it go on.",
        ("perdure demo", "perdure demo --fast"),
    ),
    "config": Command(
        "start here", "perdure.cli.config:config",
        "Check and show settings, and say where they come from; trust a file.",
        ("perdure config check", "perdure config show --origin"),
    ),
    "completion": Command(
        "start here", "perdure.cli.completion:completion", "Print a script that completes commands in a shell.",
        ('eval "$(perdure completion bash)"', "perdure completion fish > ~/.config/fish/completions/perdure.fish"),
    ),
    "version": Command(
        "start here", "perdure.cli.version:version", "Print the version.",
        ("perdure version", "perdure --version"),
    ),
}  # fmt: skip

OF_TWO_WORDS = {
    "workflow check": Command(
        "run", "perdure.cli.workflow:check", "Check a workflow file, with the line of each mistake.",
        ("perdure workflow check workflow.yaml", "perdure workflow check workflow.yaml -o json"),
    ),
    "workflow show": Command(
        "look", "perdure.cli.workflow:show", "Show a workflow file, and how far a run of it came.",
        ("perdure workflow show workflow.yaml --thread release-17",
         "perdure workflow show workflow.yaml --form mermaid"),
    ),
    "workflow schema": Command(
        "start here", "perdure.cli.workflow:schema", "Print the JSON Schema of workflow files, for editors.",
        ("perdure workflow schema", "perdure workflow schema > workflow.schema.json"),
    ),
    "memory list": Command(
        "look", "perdure.cli.memory:list_", "List what is remembered of a user, the newest first.",
        ("perdure memory list alice", "perdure memory list alice --all -o json"),
    ),
    "memory search": Command(
        "look", "perdure.cli.memory:search", "Find what is remembered of a user, and say why.",
        ("perdure memory search alice 'seat preferences'", "perdure memory search alice oslo --all --limit 3"),
    ),
    "memory history": Command(
        "look", "perdure.cli.memory:history", "Show what a fact superseded, and what superseded it.",
        ("perdure memory history alice fact_36", "perdure memory history alice fact_36 -o json"),
    ),
    "memory stats": Command(
        "look", "perdure.cli.memory:stats", "Say how much is remembered of a user.",
        ("perdure memory stats alice", "perdure memory stats alice -o json"),
    ),
    "memory add": Command(
        "care", "perdure.cli.memory:add", "Remember a text of a user, or the facts that it states.",
        ("perdure memory add alice 'User likes tea' --kind preference",
         "perdure memory add alice 'I live in Oslo' --extract"),
    ),
    "memory forget": Command(
        "care", "perdure.cli.memory:forget", "Delete a fact of a user with its history, or all of them.",
        ("perdure memory forget alice fact_36 --yes", "perdure memory forget alice --all"),
    ),
    "export langgraph": Command(
        "care", "perdure.cli.graphs:export_langgraph", "Write threads into LangGraph's own tables.",
        ("perdure export langgraph t-1 --to checkpoints.db", "perdure export langgraph --all --to checkpoints.db"),
    ),
    "import langgraph": Command(
        "care", "perdure.cli.graphs:import_langgraph", "Bring threads of LangGraph's own savers into a store.",
        ("perdure import langgraph checkpoints.db", "perdure import langgraph checkpoints.db --thread t-1"),
    ),
}  # fmt: skip
