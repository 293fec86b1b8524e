import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'

let app: TestApp
beforeAll(async () => {
  app = await openTestApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const at = { workspace_id: 'w' }

it.each([
  ['snapshot', at, 'action', 'It must be one of create, restore, list, delete.'],
  ['exec_background', at, 'action', 'It must be one of start, poll, kill, remove, list.'],
  ['team', {}, 'action', 'It must be one of create, destroy,'],
  ['vault', {}, 'action', 'It must be one of read, write,'],
  ['port_forward', { ...at, action: 'add' }, 'guest_port', 'Port in the workspace.'],
  ['git_commit', { ...at, message: 'm' }, 'path', 'Directory of the repository in the workspace, such as /workspace.'],
])('%s %j without %s is told what to give', async (tool, args, field, advice) => {
  const { code, message, details } = await app.refusal(tool, args)
  expect({ code, field: details['field'] }).toEqual({ code: 'ERR_INVALID_INPUT', field })
  expect(message.startsWith(`Required field '${field}' is missing for '${tool}'. `)).toBe(true)
  expect(message).toContain(advice)
  if (field === 'action') expect(advice).toContain((details['accepted'] as string[])[0])
})

it('a field that an action does not use may be missing', async () => {
  // The arguments are accepted: it is the workspace that does not exist.
  expect(await app.refusal('port_forward', { ...at, action: 'list' })).toMatchObject({
    code: 'ERR_WORKSPACE_NOT_FOUND',
  })
})

it('names every missing field at once', async () => {
  const { message, details } = await app.refusal('task_create', {})
  expect(message).toBe(
    "Required field 'title' is missing for 'task_create'. Short title of the task. Also missing: 'project'.",
  )
  expect(details).toMatchObject({ field: 'title', missing: ['title', 'project'] })
  expect(details['errors']).toHaveLength(2)
})

it('keeps the words of the document, and names the others after them', async () => {
  const { message } = await app.refusal('aegis.workflow.signal', {})
  expect(message).toMatch(/^Invalid tool arguments: required field '\w+' is missing or null for tool '[\w.]+'/)
  expect(message).toMatch(/ Also missing: '\w+'/)
})

it('shows what an array looks like', async () => {
  const { message } = await app.refusal('task_create', { title: 'x', project: 'p', labels: 'a,b' })
  expect(message).toBe(`Invalid arguments for 'task_create': 'labels' must be an array, such as ["text"].`)
})

it('takes a field by its other names, and once', async () => {
  const manifest_yaml =
    'apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata: {name: named, version: "1.0.0"}\nspec: {runtime: {language: python, version: "3.11"}, task: {instruction: x}}\n'
  await app.ask('aegis.agent.create', { manifest_yaml })
  for (const field of ['name', 'agent', 'agent_id']) {
    expect(await app.ask('aegis.agent.export', { [field]: 'named' })).toMatchObject({ name: 'named' })
  }
  for (const tool of ['agent_info', 'aegis.agent.logs', 'aegis.task.list']) await app.ask(tool, { agent: 'named' })
  await app.ask('agent_info', { agent: 'named', agent_id: null })
  for (const tool of ['aegis.task.execute', 'agent_scope_set', 'aegis.agent.delete']) {
    const more = tool === 'agent_scope_set' ? { scope: 'tenant' } : {}
    expect((await app.refusal(tool, { agent: 'nobody', ...more })).code).toBe('ERR_AGENT_NOT_FOUND')
  }
  const { message } = await app.refusal('agent_info', { agent: 'named', agent_id: 'other' })
  expect(message).toBe("'agent' is another name of 'agent_id' for 'agent_info'; use only one of them.")
})
