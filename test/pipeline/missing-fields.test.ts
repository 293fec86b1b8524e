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
  ['port_forward', { ...at, action: 'list' }, 'guest_port', 'For list it decides nothing: pass any, such as 1.'],
  ['git_commit', { ...at, message: 'm' }, 'path', 'Directory of the repository in the workspace, such as /workspace.'],
])('%s %j without %s is told what to give', async (tool, args, field, advice) => {
  const { code, message, details } = await app.refusal(tool, args)
  expect({ code, field: details['field'] }).toEqual({ code: 'ERR_INVALID_INPUT', field })
  expect(message.startsWith(`Required field '${field}' is missing for '${tool}'. `)).toBe(true)
  expect(message).toContain(advice)
  if (field === 'action') expect(advice).toContain((details['accepted'] as string[])[0])
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
