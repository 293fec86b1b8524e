import { expect } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { Answer, TestApp } from './app.ts'

export type Ended = Readonly<{
  execution_id: string
  status: string
  current_state: string
  blackboard: Record<string, Answer>
  output: unknown
  error: { code: string; message: string; details: Answer } | null
  timed_out?: boolean
}>
export type LoggedEvent = Readonly<{
  sequence: number
  event_type: string
  aliases?: readonly string[]
  state_name: string | null
  payload: Answer
}>

/** A manifest of a workflow with these states, the first of them the initial one. */
export function workflowYaml(
  name: string,
  states: string,
  more: Readonly<{ metadata?: string; spec?: string; version?: string }> = {},
): string {
  const indented = (text: string, by: number): string => text.trim().replaceAll(/^/gm, ' '.repeat(by))
  const first = /^\s*([\w-]+):/.exec(states)![1]
  return [
    'apiVersion: 100monkeys.ai/v1',
    'kind: Workflow',
    'metadata:',
    `  name: ${name}`,
    `  version: "${more.version ?? '1.0.0'}"`,
    ...(more.metadata === undefined ? [] : [indented(more.metadata, 2)]),
    'spec:',
    `  initial_state: ${first}`,
    ...(more.spec === undefined ? [] : [indented(more.spec, 2)]),
    '  states:',
    indented(states, 4),
    '',
  ].join('\n')
}

export const register = (app: TestApp, manifest_yaml: string, more: object = {}, caller?: ToolCaller) =>
  app.ask('aegis.workflow.create', { manifest_yaml, ...more }, caller)

export async function start(app: TestApp, name: string, more: object = {}, caller?: ToolCaller): Promise<string> {
  const { execution_id } = await app.ask<{ execution_id: string }>('aegis.workflow.run', { name, ...more }, caller)
  return execution_id
}

export const ended = (app: TestApp, execution_id: string, caller?: ToolCaller) =>
  app.ask<Ended>('aegis.workflow.wait', { execution_id }, caller)

/** Registers a workflow of these states under a name of its own, runs it and waits for its end. */
export async function runStates(
  app: TestApp,
  name: string,
  states: string,
  more: Parameters<typeof workflowYaml>[2] & Readonly<{ run?: object }> = {},
): Promise<Ended> {
  await register(app, workflowYaml(name, states, more))
  return await ended(app, await start(app, name, more.run))
}

export async function eventsOf(app: TestApp, execution_id: string): Promise<readonly LoggedEvent[]> {
  const { events } = await app.ask<{ events: LoggedEvent[] }>('aegis.workflow.logs', { execution_id, limit: 200 })
  return events
}

/** Resolves when the run has written an event of that type. */
export async function untilEvent(app: TestApp, execution_id: string, type: string): Promise<LoggedEvent> {
  for (;;) {
    const found = (await eventsOf(app, execution_id)).findLast(({ event_type }) => event_type === type)
    if (found !== undefined) return found
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** The beginning of a shell line of a step that runs apart: it waits for `letStepsGo`. */
export const untilLetGo = 'touch /tmp/ready; until [ -e /tmp/go ]; do sleep 0.1; done'

/** Lets so many steps go on together, once all of them have their copies. */
export async function letStepsGo(app: TestApp, execution_id: string, count: number): Promise<void> {
  const ready = async (): Promise<readonly string[]> => {
    const { workspaces } = await app.ask<{ workspaces: { name: string }[] }>('workspace_list')
    const names = workspaces
      .map(({ name }) => name)
      .filter((name) => new RegExp(`^wf-${execution_id}-.*step-`).test(name))
    const looks = names.map((workspace_id) => app.call('file_read', { workspace_id, path: '/tmp/ready' }))
    return (await Promise.all(looks)).every(({ isError }) => !isError) ? names : []
  }
  await expect.poll(async () => (await ready()).length).toBe(count)
  for (const workspace_id of await ready()) await app.ask('file_write', { workspace_id, path: '/tmp/go', content: '' })
}
