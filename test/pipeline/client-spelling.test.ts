import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'

/** What a client that sees safe names, or adds fields of its own, gets from the whole pipeline. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const safe = callerOf(localOwner, { safeNames: true })
const gemini = callerOf(localOwner, { safeNames: true, addedArguments: ['wait_for_previous'] })

describe('a client that sees safe names', () => {
  it('finds tools under the names of its list, and their texts too', async () => {
    const found = await app.ask<{ tools: { toolName: string; description: string }[] }>(
      'search_tools',
      { query: 'read a text file' },
      safe,
    )
    expect(found.tools.map(({ toolName }) => toolName)).toContain('fs_read')
    expect(JSON.stringify(found)).not.toMatch(/\b(fs|aegis|cmd|web)\.[a-z]/)
    const documented = await app.ask('search_tools', { query: 'read a text file' })
    expect(JSON.stringify(documented)).toContain('"fs.read"')
  })

  it('finds each tool once', async () => {
    const { tools } = await app.ask<{ tools: { toolName: string }[] }>('search_tools', { query: 'make a folder' }, safe)
    const names = tools.map(({ toolName }) => toolName)
    expect(names).toContain('fs_create_dir')
    expect(new Set(names).size).toBe(names.length)
  })

  it('finds them by a pattern in either spelling', async () => {
    const names = async (query: string) =>
      (
        await app.ask<{ tools: { toolName: string }[] }>('search_tools', { query, mode: 'regex', limit: 20 }, safe)
      ).tools.map(({ toolName }) => toolName)
    expect(await names('^fs_read$')).toEqual(['fs_read'])
    expect(await names('^fs\\.read$')).toEqual(['fs_read'])
  })

  it('is told the next step in its spelling', async () => {
    const refused = await app.refusal('aegis_agent_delete', { agent_id: 'nobody' }, safe)
    expect(refused.message).toContain('aegis_agent_list')
    expect((await app.refusal('aegis.agent.delete', { agent_id: 'nobody' })).message).toContain('aegis.agent.list')
    const unknown = await app.refusal('fs_reed', {}, safe)
    expect(unknown.message).toContain("'fs_read'")
    expect(unknown.details['nearest']).toContain('fs_read')
  })

  it('is warned in its spelling', async () => {
    const answer = await app.call('run_tool', { tool_name: 'aegisAgentList', tool_args: {} }, safe)
    expect(answer.warnings).toEqual([expect.stringContaining('aegis_agent_list')])
  })
})

describe('a client that adds a field to every call', () => {
  it('has it dropped, for the tool and through run_tool', async () => {
    expect(await app.ask('task_list', { wait_for_previous: true }, gemini)).toMatchObject({ total_count: 0 })
    const through = { tool_name: 'task_list', tool_args: {}, wait_for_previous: false }
    const answer = await app.call('run_tool', through, gemini)
    expect([answer.isError, answer.warnings]).toEqual([false, undefined])
  })

  it('is refused every other field, and others are refused this one', async () => {
    expect((await app.refusal('task_list', { wait_for_next: true }, gemini)).code).toBe('ERR_INVALID_INPUT')
    const refused = await app.refusal('task_list', { wait_for_previous: true }, safe)
    expect(refused.message).toContain("Unknown field 'wait_for_previous'")
  })
})
