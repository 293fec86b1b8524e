import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { expect, inject } from 'vitest'

/** Before each file of tests: where it and the programs that it starts make their folders. */
const root = resolve(import.meta.dirname, '../..')
/** What tries the bounds of workspaces: in memory, all that a workspace writes would count as its memory. */
const onDisk =
  /^(test\/(backends|workspaces)|src\/(backends|supervisor))\/|^test\/faults\/(workspace|supervisor|full-disk|disk)/
const file = relative(root, expect.getState().testPath!)
process.env['TMPDIR'] = onDisk.test(file) ? inject('diskFolder') : inject('quickFolder')

// As bin/start.mjs does, in the same place: supervisors that tests start take their compiled code from beside it.
enableCompileCache(join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'castellan', 'compile'))
