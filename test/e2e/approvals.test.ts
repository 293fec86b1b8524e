import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { castellanJson, newPerson, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { runCastellan } from '../support/run-castellan.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Where people answer what a policy asks them: a browser in which they are signed in, and a terminal. */
type Failure = Readonly<{
  error?: Readonly<{ code: string; message: string; details: Readonly<Record<string, string>> }>
}>

let server: ServerHere
let key = ''
beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  key = String((await castellanJson({ dataDir }, ['keys', 'create', 'robot', '--role', 'editor']))['secret'])
  server = await startServerHere({ dataDir, env: { CASTELLAN_REQUIRE_KEYS: 'true' } })
  const policy = ['toolId=task_create', 'conditions=[]', 'action=require_approval']
  await castellanJson(server, ['call', 'create_tool_invocation_policy', ...policy])
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const post = (path: string, headers: Readonly<Record<string, string>>, body: object = {}) =>
  fetch(new URL(path, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
const create = async (title: string): Promise<Failure> => {
  const reply = await post('/v1/tools/task_create', { authorization: `Bearer ${key}` }, { project: 'p', title })
  return (await reply.json()) as Failure
}
const asked = async (title: string): Promise<string> => {
  const { error } = await create(title)
  expect(error?.code).toBe('ERR_APPROVAL_REQUIRED')
  return error!.details['approval_id']!
}
const statusOf = async (id: string) => (await castellanJson(server, ['approvals', 'show', id]))['status']

it('is a browser with a session, and neither a page elsewhere nor who asked', async () => {
  const cookie = await signIn(server, await newPerson(server, 'ann@example.com', ['--role', 'editor']))
  const member = await signIn(server, await newPerson(server, 'bob@example.com'))
  const id = await asked('by-browser')
  const approve = `/v1/approvals/${id}/approve`
  expect((await post(approve, { authorization: `Bearer ${key}` })).status).toBe(403)
  expect((await post(approve, { cookie: member })).status).toBe(404)
  expect((await post(approve, { cookie, origin: 'https://elsewhere.example' })).status).toBe(403)
  expect(await statusOf(id)).toBe('pending')
  const answered = await post(approve, { cookie, origin: new URL(server.url).origin })
  expect([answered.status, await answered.json()]).toMatchObject([200, { status: 'approved' }])
  expect(await create('by-browser')).toHaveProperty('task_id')
})

it('is the command line', async () => {
  const run = (...args: string[]) =>
    runCastellan(['approvals', ...args, '--data-dir', server.dataDir], { home: server.dataDir })
  const [approved, denied] = [await asked('by-terminal'), await asked('not-by-terminal')]
  expect((await run('list')).stdout).toMatch(
    new RegExp(`^${approved} +pending +task_create +\\{.*by-terminal.*\\} `, 'm'),
  )
  expect(await run('approve', approved)).toMatchObject({ code: 0, stdout: expect.stringContaining('is approved') })
  expect(await run('deny', denied, '--note', 'not today')).toMatchObject({ code: 0 })
  expect(await create('by-terminal')).toHaveProperty('task_id')
  expect((await create('not-by-terminal')).error).toMatchObject({ code: 'ERR_POLICY_DENIED' })
  expect((await create('not-by-terminal')).error?.message).toContain('not today')
  const all = await run('list', '--all')
  expect(all.stdout).toMatch(new RegExp(`^${denied} +denied `, 'm'))
  expect(all.stderr).toContain('castellan call aegis.workflow.logs execution_id=ID')
  expect(await run('approve', denied)).toMatchObject({
    code: 5,
    stderr: expect.stringContaining('castellan approvals show'),
  })
})
