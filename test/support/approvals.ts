import type { ToolAnswer, ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { ownerCaller, type TestApp } from './app.ts'

export type Approval = Readonly<Record<string, unknown> & { id: string; kind: string; status: string }>

/** The owner on the command line, which answers approvals that connections ask for. */
export const cli: ToolCaller = { ...ownerCaller, transport: 'cli' }

/** A policy for `task_create`, by which titles that begin with "ask" need an approval. */
export const askingPolicy = {
  toolId: 'task_create',
  conditions: [{ key: 'title', operator: 'regex', value: '^ask' }],
  action: 'require_approval',
  reason: 'titles that ask need a person',
} as const

/** Approvals of an app that the test opens before it uses them. */
export const approvalsOf = (app: () => TestApp) => ({
  answer: (id: string, decision: 'approve' | 'deny', caller = cli, more: object = {}): Promise<ToolAnswer> =>
    app().call('approval_answer', { id, decision, ...more }, caller),
  approve: (id: string, caller = cli) => app().ask('approval_answer', { id, decision: 'approve' }, caller),
  get: async (id: string, caller = cli): Promise<Approval> =>
    (await app().ask<{ approval: Approval }>('approval_get', { id }, caller)).approval,
  list: async (args: object = {}, caller = cli): Promise<Approval[]> =>
    (await app().ask<{ approvals: Approval[] }>('approval_list', args, caller)).approvals,
})
