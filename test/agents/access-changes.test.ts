import { expect, test } from 'vitest'
import { SYSTEM_TENANT } from '../../src/contract/principal.ts'
import { openTestApp } from '../support/app.ts'

/** Every process reviews what is open at the addresses of a tenant when this number grows. */
test('a change of who sees an agent is announced', async () => {
  await using app = await openTestApp()
  await app.ask('create_mcp_gateway', { name: 'Work' })
  const version = (tenant: string) =>
    app.behindItsBack(
      (db) => db.prepare('SELECT version FROM mcp_tool_versions WHERE tenant = ?').get(tenant)?.['version'] ?? 0,
    ) as number
  const raised = async (change: () => Promise<unknown>, tenant = 'local'): Promise<boolean> => {
    const before = version(tenant)
    await change()
    return version(tenant) > before
  }
  const { id } = await app.ask<{ id: string }>('create_agent', { name: 'Nest', scope: 'org' })
  expect(await raised(() => app.ask('edit_agent', { id, scope: 'personal' }))).toBe(true)
  expect(await raised(() => app.ask('edit_agent', { id, scope: 'org' }))).toBe(true)
  const setScope = (scope: string) => () => app.ask('agent_scope_set', { agent_id: id, scope })
  expect(await raised(setScope('global'))).toBe(true)
  expect(await raised(setScope('tenant'), SYSTEM_TENANT)).toBe(true)
  expect(await raised(() => app.ask('aegis.agent.delete', { agent_id: id }))).toBe(true)
})
