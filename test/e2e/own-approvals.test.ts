import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ask, type CastellanClient, type Outcome } from '../support/castellan-client.ts'
import { startClientHere } from '../support/castellan-here.ts'
import { newDataDir } from '../support/real-server.ts'
import { runCastellan } from '../support/run-castellan.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** A program that asks for an approval has more than one way to the server, and answers over none of them. */
let server: ServerHere
let asking: CastellanClient
let second: CastellanClient
beforeAll(async () => {
  const dataDir = newDataDir()
  server = await startServerHere({ dataDir })
  asking = await startClientHere({ dataDir })
  second = await startClientHere({ dataDir })
  await ask(asking, 'create_tool_invocation_policy', {
    toolId: 'task_create',
    conditions: [],
    action: 'require_approval',
  })
})
afterAll(async () => {
  await Promise.all([asking.leave(), second.leave()])
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const asked = async (outcome: Outcome): Promise<string> => {
  expect(outcome).toMatchObject({ kind: 'failed', code: 'ERR_APPROVAL_REQUIRED' })
  return /the request is (\S+),/.exec(outcome.kind === 'failed' ? outcome.message : '')![1]!
}
const post = async (path: string, body: object) =>
  (await (
    await fetch(new URL(path, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  ).json()) as object

it('not over a second connection, nor by REST, and the person does at the command line', async () => {
  const task = { project: 'p', title: 'two connections' }
  const id = await asked(await asking.call('task_create', task))
  const answer = { id, decision: 'approve' }
  const refused = {
    code: 'ERR_PERMISSION_DENIED',
    message: expect.stringContaining('castellan approvals'),
  }
  for (const client of [asking, second]) expect(await client.call('approval_answer', answer)).toMatchObject(refused)
  expect(await post('/v1/tools/approval_answer', answer)).toMatchObject({ error: refused })
  expect(await post(`/v1/approvals/${id}/approve`, {})).toMatchObject({ error: refused })
  expect(await asking.call('task_create', task)).toMatchObject({ code: 'ERR_APPROVAL_REQUIRED' })
  const { dataDir } = server
  const done = await runCastellan(['approvals', 'approve', id, '--data-dir', dataDir], { home: dataDir })
  expect(done).toMatchObject({ code: 0 })
  expect(await ask(asking, 'task_create', task)).toHaveProperty('task_id')
})
