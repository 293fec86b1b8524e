import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { dialects } from '../support/databases.ts'
import { createDatabase, withClient } from '../support/postgres.ts'

/** Someone who can write the database changes the rules in it. The log has what they were. */
describe.each(dialects)('the rules in %s', (dialect) => {
  let app: TestApp
  let url: string | undefined
  let policies: string[]
  let limit: string
  beforeEach(async () => {
    url = dialect === 'SQLite' ? undefined : await createDatabase(inject('postgresUrl'))
    app = await openTestApp(url === undefined ? {} : { config: { database_url: url } })
    const policy = async (action: string, value?: string): Promise<string> => {
      const conditions = value === undefined ? [] : [{ key: 'url', operator: 'startsWith', value }]
      const args = { toolId: 'web.fetch', conditions, action }
      return (await app.ask<{ policy: { id: string } }>('create_tool_invocation_policy', args)).policy.id
    }
    const limited = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 5 }
    const limitOf = async (more: object): Promise<string> =>
      (await app.ask<{ limit: { id: string } }>('create_limit', { ...limited, ...more })).limit.id
    policies = [await policy('block_always', 'https://a.example/'), await policy('block_always')]
    // A default that is created again is changed.
    expect(await policy('require_approval')).toBe(policies[1])
    const gone = await policy('block_always', 'https://b.example/')
    await app.ask('delete_tool_invocation_policy', { id: gone })
    await app.ask('update_tool_invocation_policy', { id: policies[0]!, action: 'require_approval' })
    limit = await limitOf({ model: ['big', 'small'] })
    await app.ask('update_limit', { id: limit, limit_value: 7.25 })
    await app.ask('delete_limit', {
      id: await limitOf({ limit_type: 'tool_calls', mcp_server_name: 'castellan', tool_name: 'web.fetch' }),
    })
    await limitOf({ limit_type: 'mcp_server_calls', mcp_server_name: 'castellan' })
  })
  afterEach(() => app[Symbol.asyncDispose]())

  const alter = async (sql: string): Promise<void> => {
    if (url === undefined) app.behindItsBack((db) => db.exec(sql))
    else await withClient(url, (client) => client.query(sql))
  }
  const found = async (): Promise<readonly string[]> => {
    await app.stop()
    const { findings } = await checkState(app.config)
    return findings.map(({ table, row, rule, field }) =>
      [table, row, rule, ...(field === undefined ? [] : [field])].join(' '),
    )
  }

  it('are what the log says, however they were changed', async () => {
    expect(await found()).toEqual([])
  })

  it.each<[string, (ids: readonly string[]) => string, (ids: readonly string[]) => string]>([
    [
      'a policy that is gone',
      ([id]) => `DELETE FROM tool_policies WHERE id = '${id}'`,
      ([id]) => `tool_policies ${id} row.missing`,
    ],
    [
      'a policy that allows',
      ([, id]) => `UPDATE tool_policies SET action = 'allow_when_context_is_untrusted' WHERE id = '${id}'`,
      ([, id]) => `tool_policies ${id} row.field action`,
    ],
    [
      'a policy for another tool',
      ([id]) => `UPDATE tool_policies SET tool_id = 'x' WHERE id = '${id}'`,
      ([id]) => `tool_policies ${id} row.field tool_id`,
    ],
    [
      'a condition that never holds',
      ([id]) => `UPDATE tool_policies SET conditions = '[]' WHERE id = '${id}'`,
      ([id]) => `tool_policies ${id} row.field conditions`,
    ],
    [
      'a policy that nobody created',
      ([id]) => `UPDATE tool_policies SET id = 'x' WHERE id = '${id}'`,
      () => 'tool_policies x row.extra',
    ],
    [
      'a larger limit',
      ([, , id]) => `UPDATE usage_limits SET limit_value = 900 WHERE id = '${id}'`,
      ([, , id]) => `usage_limits ${id} row.field limitValue`,
    ],
    [
      'a limit of other models',
      ([, , id]) => `UPDATE usage_limits SET models = '["x"]' WHERE id = '${id}'`,
      ([, , id]) => `usage_limits ${id} row.field model`,
    ],
    [
      'a limit that is gone',
      ([, , id]) => `DELETE FROM usage_limits WHERE id = '${id}'`,
      ([, , id]) => `usage_limits ${id} row.missing`,
    ],
  ])('that someone altered are found: %s', async (_, sql, finding) => {
    const ids = [...policies, limit]
    await alter(sql(ids))
    expect(await found()).toContain(finding(ids))
  })
})
