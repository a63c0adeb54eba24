"""A `config.yaml` that has every key there is."""

WHOLE = """\
storage:
  sessions:
    url: ${DATABASE_URL:-postgresql://localhost/agents}
    namespace: tenant-7
    schema: agent
    migrate: check
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
    password: ${DB_PASSWORD:-s3cret}
    max_decoded_bytes: 1000000
    max_decoded_nodes: 50000
  checkpoint:
    enabled: true
    strategy: hybrid
    interval: 10
    after_tools: true
    before_llm: true
    every: 1800
    recovery:
      auto_resume: false
      auto_resume_hitl: true
      timeout: 86400
human_in_the_loop:
  enabled: true
  approval_timeout_seconds: 300
  auto_reject_on_timeout: false
  require_approval_for: [deploy, "send mail"]
  trusted_operations: [search]
notifications:
  - url: https://hooks.example.com/approvals
    secret: ${HOOK_SECRET:-s3cret}
    headers: {X-Team: agents}
    template: "{ask}"
    timeout: 4
    allow_private: false
    retry: {attempts: 5, initial: 0.5, max: 8}
"""
