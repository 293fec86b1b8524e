import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { castellanJson, newPerson, PASSWORD, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'
import { workflowYaml } from '../support/workflows.ts'

/** With approvals.four_eyes, a key that a person created asks in the name of that person. */
let server: ServerHere
let own: Record<string, string>
let key: Record<string, string>
let other: Record<string, string>
beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  const env = { CASTELLAN_REQUIRE_KEYS: 'true', CASTELLAN_APPROVALS_FOUR_EYES: 'true' }
  server = await startServerHere({ dataDir, env })
  const person = async (email: string) => {
    await newPerson(server, email, ['--admin'])
    return { cookie: await signIn(server, { email, password: PASSWORD }) }
  }
  own = await person('ada@example.com')
  other = await person('bob@example.com')
  const { secret } = await callAs(own, 'api_key_create', { name: 'own', role: 'admin', tier: 'operator' })
  key = { authorization: `Bearer ${secret}` }
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

async function callAs(headers: Record<string, string>, tool: string, args: object): Promise<Row> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(args),
  })
  return (await response.json()) as Row
}
const refused = { error: { code: 'ERR_PERMISSION_DENIED', message: expect.stringContaining('four_eyes') } }

it('nobody approves a call of a key of their own', async () => {
  const policy = { toolId: 'task_create', conditions: [], action: 'require_approval' }
  await callAs(own, 'create_tool_invocation_policy', policy)
  const asked = await callAs(key, 'task_create', { project: 'p', title: 't' })
  const { approval_id: id } = (asked as { error: { details: { approval_id: string } } }).error.details
  expect(await callAs(own, 'approval_answer', { id, decision: 'approve' })).toMatchObject(refused)
  expect(await callAs(other, 'approval_answer', { id, decision: 'approve' })).toMatchObject({ status: 'approved' })
})

it('nobody answers a Human state of their own run with a key, nor that of a key of theirs', async () => {
  const states = 'ASK: { kind: Human, prompt: "Go on?", transitions: [] }'
  await callAs(own, 'aegis.workflow.create', { manifest_yaml: workflowYaml('asking', states) })
  for (const [runner, answerer] of [
    [own, key],
    [key, own],
  ] as const) {
    const { execution_id } = await callAs(runner, 'aegis.workflow.run', { name: 'asking' })
    const answer = { execution_id, response: 'yes' }
    expect(await callAs(answerer, 'aegis.workflow.signal', answer)).toMatchObject(refused)
    await expect
      .poll(() => callAs(other, 'aegis.workflow.signal', answer), { timeout: 20_000 })
      .toMatchObject({ signalled: true })
  }
})
