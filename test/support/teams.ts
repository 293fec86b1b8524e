import { expect } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { Answer, TestApp } from './app.ts'

export type Received = Readonly<{
  messages: readonly Readonly<{ message_id: string; from: string; to: string; content: string; message_type: string }>[]
  count: number
  daemon_results: readonly TaskResult[]
  daemon_pending_tasks: number
  remaining_messages: number
  remaining_results: number
}>
export type TaskResult = Readonly<{
  task_id: string
  success: boolean
  exit_code: number
  stdout: string
  stderr: string
  elapsed_secs: number
  source_message_id: string
}>
export type TeamStatus = Answer & Readonly<{ members: readonly (Answer & { name: string; workspace_id: string })[] }>

/** The tool `team` as one caller uses it. */
export function teamsOf(app: () => TestApp, caller?: ToolCaller) {
  const act = <T = Answer>(action: string, args: object = {}) => app().ask<T>('team', { action, ...args }, caller)
  const message = (name: string, agent: string, to: string, content: string, more: object = {}) =>
    act<Answer & { message_id: string }>('message', { name, agent, to, content, ...more })
  return {
    act,
    message,
    refused: (action: string, args: object = {}) => app().refusal('team', { action, ...args }, caller),
    create: (name: string, members: readonly string[], more: object = {}) =>
      act('create', { name, roles: members.map((member) => ({ name: member, role: 'worker' })), ...more }),
    status: (name: string) => act<TeamStatus>('status', { name }),
    receive: (name: string, agent: string, more: object = {}) => act<Received>('receive', { name, agent, ...more }),
    assign: (name: string, to: string, task: object, more: object = {}) =>
      message(name, 'coordinator', to, JSON.stringify(task), { message_type: 'task_assignment', ...more }),
    /** Receives until so many results have come. */
    async results(name: string, agent: string, count: number): Promise<readonly TaskResult[]> {
      const results: TaskResult[] = []
      await expect
        .poll(
          async () => {
            results.push(...(await act<Received>('receive', { name, agent })).daemon_results)
            return results.length
          },
          { interval: 20 },
        )
        .toBeGreaterThanOrEqual(count)
      return results
    },
  }
}
