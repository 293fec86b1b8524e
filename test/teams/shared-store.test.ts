import { copyFileSync, mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, inject, it } from 'vitest'
import { stateDirectory } from '../../src/app/state-directory.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { createDatabase } from '../support/postgres.ts'
import { teamsOf } from '../support/teams.ts'
import { openWorkspaceApp } from '../support/workspaces.ts'

it('a task that is assigned on one machine is run on the one that has the team', async () => {
  const database_url = await createDatabase(inject('postgresUrl'))
  await using here = await openWorkspaceApp({ config: { database_url } })
  const state = stateDirectory(here.config)
  await using _ = { [Symbol.asyncDispose]: () => endSupervisor(state) }
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-elsewhere-'))
  mkdirSync(join(dataDir, basename(state)))
  copyFileSync(join(state, 'log-key.json'), join(dataDir, basename(state), 'log-key.json'))
  await using there = await openWorkspaceApp({ config: { database_url }, dataDir })
  const [home, away] = [teamsOf(() => here), teamsOf(() => there)]
  await home.create('crew', ['ann'])
  await away.message('crew', 'owner', 'ann', 'hello')
  await away.assign('crew', 'ann', { task_id: 't', command: 'hostname' })
  expect(await away.results('crew', 'ann', 1)).toMatchObject([{ task_id: 't', stdout: 'crew-ann\n' }])
  for (const [action, args] of [
    ['destroy', { name: 'crew' }],
    ['create', { name: 'sub', roles: [{ name: 'b', role: 'x' }], parent_team: 'crew' }],
  ] as const) {
    expect((await away.refused(action, args)).code).toBe('ERR_CAPABILITY_MISSING')
  }
  await home.act('destroy', { name: 'crew' })
})
