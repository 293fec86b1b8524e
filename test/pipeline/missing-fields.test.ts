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
