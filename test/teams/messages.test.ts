import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { teamsOf } from '../support/teams.ts'
import { openWorkspaceApp } from '../support/workspaces.ts'

let app: TestApp
const { create, message, receive, refused } = teamsOf(() => app)
beforeAll(async () => {
  app = await openWorkspaceApp()
  await create('crew', ['ann', 'bob', 'cid'])
  await create('led', ['coordinator', 'dev'])
})
afterAll(() => app[Symbol.asyncDispose]())
const contents = async (team: string, agent: string, more: object = {}) =>
  (await receive(team, agent, more)).messages.map(({ content }) => content)

describe('messages', () => {
  it('come in their order, with who sent them, and only once', async () => {
    const { message_id } = await message('crew', 'ann', 'bob', 'one')
    await message('crew', 'cid', 'bob', 'two', { message_type: 'note' })
    expect(await receive('crew', 'bob')).toEqual({
      action: 'receive',
      agent: 'bob',
      messages: [
        { message_id, from: 'ann', to: 'bob', content: 'one', message_type: 'text', timestamp: expect.any(String) },
        expect.objectContaining({ from: 'cid', content: 'two', message_type: 'note' }),
      ],
      count: 2,
      daemon_results: [],
      daemon_pending_tasks: 0,
      remaining_messages: 0,
      remaining_results: 0,
    })
    expect(await contents('crew', 'bob')).toEqual([])
  })

  it('to everybody reach all but the sender', async () => {
    expect(await message('crew', 'ann', '*', 'all')).toMatchObject({ to: '*', recipients: ['bob', 'cid'] })
    expect(await contents('crew', 'ann')).toEqual([])
    expect(await contents('crew', 'bob')).toEqual(['all'])
    expect((await receive('crew', 'cid')).messages).toMatchObject([{ to: '*', content: 'all' }])
    expect(await message('crew', 'owner', '*', 'x')).toMatchObject({ recipients: ['ann', 'bob', 'cid'] })
    for (const name of ['ann', 'bob', 'cid']) await receive('crew', name)
  })

  it('go to the owner and from the owner, who is the coordinator where no member is', async () => {
    await message('crew', 'ann', 'coordinator', 'for you')
    expect(await contents('crew', 'owner')).toEqual(['for you'])
    await message('led', 'dev', 'coordinator', 'for the member')
    expect(await contents('led', 'owner')).toEqual([])
    expect(await contents('led', 'coordinator')).toEqual(['for the member'])
  })

  it('need a sender and a recipient that are in the team', async () => {
    const request = { name: 'crew', agent: 'ann', to: 'bob', content: 'x' }
    expect(await refused('message', { ...request, agent: 'dev' })).toMatchObject({
      code: 'ERR_AGENT_NOT_FOUND',
      details: { field: 'agent', members: ['ann', 'bob', 'cid', 'owner'] },
    })
    expect(await refused('message', { ...request, to: 'dev' })).toMatchObject({ details: { field: 'to' } })
    expect((await refused('receive', { name: 'crew', agent: '*' })).code).toBe('ERR_AGENT_NOT_FOUND')
    expect((await refused('message', { ...request, name: 'none' })).code).toBe('ERR_TEAM_NOT_FOUND')
    await create('alone', ['one'])
    expect(await refused('message', { ...request, name: 'alone', agent: 'one', to: '*' })).toMatchObject({
      details: { field: 'to' },
    })
  })

  it('are at most 256 KiB, counted in bytes', async () => {
    const request = { name: 'crew', agent: 'ann', to: 'bob' }
    expect((await refused('message', { ...request, content: 'ü'.repeat(131_073) })).code).toBe('ERR_TOO_LARGE')
    expect((await refused('message', { ...request, content: 'x'.repeat(262_145) })).code).toBe('ERR_INVALID_INPUT')
    await message('crew', 'ann', 'bob', 'ü'.repeat(131_072))
    expect(await contents('crew', 'bob')).toEqual(['ü'.repeat(131_072)])
  })

  it('are never dropped: a full inbox refuses, and a broadcast reaches all or none', async () => {
    for (let n = 0; n < 100; n++) await message('crew', 'ann', 'bob', `m${n}`)
    expect(await refused('message', { name: 'crew', agent: 'ann', to: 'bob', content: 'x' })).toMatchObject({
      code: 'ERR_INBOX_FULL',
      details: { agent: 'bob', waiting: 100 },
    })
    expect((await refused('message', { name: 'crew', agent: 'ann', to: '*', content: 'x' })).code).toBe(
      'ERR_INBOX_FULL',
    )
    expect(await contents('crew', 'cid')).toEqual([])
    expect(await contents('crew', 'bob')).toEqual(Array.from({ length: 10 }, (_, n) => `m${n}`))
    const rest = await receive('crew', 'bob', { limit: 50 })
    expect([rest.count, rest.remaining_messages]).toEqual([50, 40])
    expect(await contents('crew', 'bob', { limit: 100 })).toEqual(Array.from({ length: 40 }, (_, n) => `m${n + 60}`))
  })

  it('that would make too large an answer come with the next one', async () => {
    const large = '\u0001'.repeat(250_000)
    for (let n = 0; n < 5; n++) await message('crew', 'ann', 'bob', `${n}${large}`)
    const first = await receive('crew', 'bob')
    expect([first.count, first.remaining_messages]).toEqual([2, 3])
    const seen = [...first.messages]
    while (seen.length < 5) seen.push(...(await receive('crew', 'bob')).messages)
    expect(seen.map(({ content }) => content[0])).toEqual(['0', '1', '2', '3', '4'])
  })

  it('survive a restart of the server', async () => {
    await message('crew', 'ann', 'bob', 'kept')
    app = await app.restart()
    expect(await contents('crew', 'bob')).toEqual(['kept'])
  })

  it('are received by one of two that ask at the same time', async () => {
    for (let n = 0; n < 20; n++) await message('crew', 'ann', 'bob', `m${n}`)
    const answers = await Promise.all([1, 2, 3, 4].map(() => contents('crew', 'bob', { limit: 7 })))
    expect(answers.flat().sort()).toEqual(Array.from({ length: 20 }, (_, n) => `m${n}`).sort())
  })

  it('leave their digest in the log, and not their words', async () => {
    await message('crew', 'ann', 'bob', 'a secret of ours')
    await receive('crew', 'bob')
    const log = JSON.stringify(await app.log())
    expect(log).toContain('team_message_sent')
    expect(log).toContain('team_messages_received')
    expect(log).not.toContain('a secret of ours')
  })
})
