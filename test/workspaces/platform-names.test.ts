import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createToolInvoker } from '../../src/app/wiring/open-tool-invoker.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { openTestApp, type TestApp } from '../support/app.ts'

let app: TestApp
beforeAll(async () => {
  app = await openTestApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const id = '0b0e5a52-6d0c-4a5e-9d0e-2f4f8f3f1a11'
const names = [
  'personal-key-ann',
  `execution-${id}`,
  `intent-${id}`,
  `output-${id}`,
  `wf-${id}`,
  `wf-${id}-2-build`,
  `volume-${'ab'.repeat(16)}`,
]

describe('a name that the platform gives its own workspaces', () => {
  it.each(names)('%s is refused to callers, agents of runs among them', async (name) => {
    const other = await app.keyCaller()
    for (const caller of [undefined, other]) {
      const refused = await app.refusal('workspace_create', { name }, caller)
      expect(refused).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'name' } })
    }
    const invoker = createToolInvoker(app.app.views, app.config.mode, async (principal) => principal)
    invoker.connect((caller, tool, args, options) => app.app.host.call(caller, tool, args, options))
    const { signal } = new AbortController()
    const answer = await invoker.call(localOwner, 'workspace_create', { name }, { signal, transport: 'agent' })
    expect(answer).toMatchObject({ code: 'ERR_INVALID_INPUT' })
  })

  it('is refused to teams and forks as well', async () => {
    const roles = [{ name: 'key-ann', role: 'x' }]
    const refused = await app.refusal('team', { action: 'create', name: 'personal', roles })
    expect(JSON.stringify(refused)).toContain('choose another')
    await app.ask('workspace_create', { name: 'source' })
    await app.ask('snapshot', { action: 'create', workspace_id: 'source', name: 's' })
    const fork = { workspace_id: 'source', snapshot_name: 's' }
    expect(await app.refusal('workspace_fork', { ...fork, new_name: names[1] })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
    })
    const several = await app.refusal('workspace_fork', { ...fork, name_prefix: 'personal', count: 2 })
    expect(several).toMatchObject({ code: 'ERR_INVALID_INPUT' })
  })

  it.each(['output-1', 'wf-mine', 'volume-a', 'execution-notes'])('leaves %s to everybody', async (name) => {
    expect(await app.ask('workspace_create', { name })).toMatchObject({ name })
    await app.ask('workspace_destroy', { workspace_id: name })
  })
})
