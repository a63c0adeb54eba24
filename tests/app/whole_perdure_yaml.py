"""A `perdure.yaml` that has every key there is."""

WHOLE = """\
store: ${DATABASE_URL:-postgresql://localhost/agents}
password: ${DB_PASSWORD:-s3cret}
namespace: tenant-7
migrate: check
schema: agent
hot: redis://localhost
cache_ttl: 3600
max_cached_threads: 50
durability: background
max_pending: 200
lease_ttl: 60
user_id_type: bigint
pool_min: 2
pool_max: 20
pool_timeout: 5
prepare: false
retry_seconds: 3
call_timeout: 7.5
max_decoded_bytes: 1000000
max_decoded_nodes: 50000
cache_bytes: 1000000
subclasses: plain
checkpoints: {enabled: true, strategy: hybrid, interval: 10, after_tools: true, before_llm: true, every: 1800}
recovery: {auto_resume: false, auto_resume_hitl: true, timeout: 86400}
approvals:
  enabled: true
  require_approval_for: [deploy, "send mail"]
  trusted_operations: [search]
  timeout: 300
  auto_reject: false
webhooks:
  - url: https://hooks.example.com/approvals
    secret: ${HOOK_SECRET:-s3cret}
    headers: {X-Team: agents}
    template: "{ask}"
    link: https://example.com/decide/{token}
    timeout: 4
    allow_private: false
    retry: {attempts: 5, initial: 0.5, max: 8}
retention:
  last: 100
  days: 30
  bytes: 100000000
  per: thread
  until: completed
  messages: drop
  kinds:
    routine: {last: 3, days: 7, bytes: 1000, per: user, until: cleared}
  tags:
    release: {}
agent:
  model: gpt-4o-mini
  base_url: http://127.0.0.1:8080/v1
  api_key: ${MODEL_KEY:-s3cret}
  timeout: 30
  attempts: 2
  instructions: Be brief.
  max_turns: 8
  settings: {temperature: 0.2}
worker: {handlers: agent.py, concurrency: 4, grace: 5}
prices:
  gpt-4o-mini: {input: 0.15, output: 0.6}
"""
