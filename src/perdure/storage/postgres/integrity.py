"""What `amcheck` is asked, where it is installed and this user may call it: a statement for each index and table."""

_OF_AMCHECK = """FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'amcheck'
  CROSS JOIN pg_class c JOIN pg_namespace ours ON ours.oid = c.relnamespace AND ours.nspname = $1::text"""
_HEAP = "SELECT format(%L, blkno, msg) FROM %I.verify_heapam(%s::oid::regclass)"
_MAY = "has_function_privilege(p.oid, 'EXECUTE')"
CHECKS = f"""SELECT format('SELECT %I.bt_index_check(%s::oid::regclass, true)::text', n.nspname, c.oid)
{_OF_AMCHECK} JOIN pg_am a ON a.oid = c.relam AND a.amname = 'btree'
WHERE p.proname = 'bt_index_check' AND p.pronargs = 2 AND c.relkind = 'i' AND {_MAY}
UNION ALL
SELECT format('{_HEAP}', 'block %s: %s', n.nspname, c.oid)
{_OF_AMCHECK} WHERE p.proname = 'verify_heapam' AND c.relkind = 'r' AND {_MAY}"""
