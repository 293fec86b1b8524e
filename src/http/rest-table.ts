import { AppError } from '../contract/app-error.ts'
import type { ToolFailure } from '../tools/runtime/tool-host.ts'
import { registryRows } from './registry-rows.ts'
import { fieldsOf, flags, numbers, type RestRequest, requiredText, textOf, texts, wordOf } from './rest-arguments.ts'

/**
 * Agents, executions and workflows under the addresses that their clients know. Every row is a tool call with the tool's own
 * rules; a row whose tool does not exist is not served.
 */
export type RestRow = Readonly<{
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  /** The first existing tool, of those that a request could mean. */
  tool: string | ((request: RestRequest) => string)
  /** Named where `tool` is chosen for each request. */
  tools?: readonly string[]
  args(request: RestRequest): Readonly<Record<string, unknown>>
  /** The tool to call instead, if the refusal of the first one shows that the request means that. */
  instead?(failure: ToolFailure, request: RestRequest): string | undefined
  /** For success, 200 if absent. */
  status?: number
  /** A different status for a refusal, where clients expect another. */
  failureStatus?(failure: ToolFailure): number | undefined
  /** Whether the answer reports that the present state forbids it. */
  isConflict?(answer: Readonly<Record<string, unknown>>): boolean
  /** The displayed part of the tool's answer; all if absent. */
  shape?(answer: Readonly<Record<string, unknown>>): unknown
  /** The answer contains a file, which is sent unchanged. */
  file?(answer: Readonly<Record<string, unknown>>): Readonly<{ bytes: Buffer; isText: boolean }>
}>

/** A manifest is the body itself, as JSON or YAML, or a string inside it. */
const manifestOf = (body: RestRequest['body']): Record<string, unknown> => ({
  manifest_yaml: body['manifest_yaml'] ?? (Object.keys(body).length === 0 ? undefined : JSON.stringify(body)),
})
const deploying = ({ query, body }: RestRequest) => ({
  ...manifestOf(body),
  ...flags(query, 'force'),
  ...texts(query, 'scope'),
})

const isConflict = ({ status }: Readonly<Record<string, unknown>>): boolean => status === 'conflict'

/** Input that does not match the agent is unprocessable; an unknown version is a conflict. */
function executeStatus({ code, details }: ToolFailure): number | undefined {
  if (code === 'ERR_INVALID_INPUT' && details['field'] === 'input') return 422
  return code === 'ERR_AGENT_NOT_FOUND' && details['field'] === 'version' ? 409 : undefined
}

const agentRows: readonly RestRow[] = [
  {
    method: 'POST',
    path: '/v1/agents',
    tool: 'aegis.agent.create',
    args: deploying,
    status: 201,
    isConflict,
  },
  {
    method: 'GET',
    path: '/v1/agents',
    tool: 'aegis.agent.list',
    args: ({ query }) => ({
      ...numbers(query, 'limit', 'offset'),
      ...texts(query, 'status'),
      ...flags(query, 'include_platform_templates'),
      details: true,
    }),
    shape: ({ agents }) => agents,
  },
  {
    method: 'GET',
    path: '/v1/agents/{id}',
    tool: 'agent_info',
    args: ({ params, query }) => ({ agent_id: params['id'], ...texts(query, 'version') }),
  },
  {
    method: 'PATCH',
    path: '/v1/agents/{id}',
    tool: 'aegis.agent.update',
    args: (request) => ({ ...deploying(request), agent_id: request.params['id'] }),
    isConflict,
  },
  {
    method: 'GET',
    path: '/v1/agents/{id}/versions',
    tool: 'agent_info',
    args: ({ params }) => ({ agent_id: params['id'] }),
    shape: ({ versions }) => versions,
  },
  {
    method: 'POST',
    path: '/v1/agents/{id}/scope',
    tool: 'agent_scope_set',
    args: ({ params, body }) => {
      fieldsOf(body, 'target_scope', 'scope')
      return { agent_id: params['id'], scope: wordOf(body, ['target_scope', 'scope'], ['tenant', 'global']) }
    },
  },
  {
    method: 'DELETE',
    path: '/v1/agents/{id}',
    tool: 'aegis.agent.delete',
    args: ({ params }) => ({ agent_id: params['id'] }),
  },
  {
    method: 'GET',
    path: '/v1/agents/lookup/{name}',
    tool: 'aegis.agent.export',
    args: ({ params }) => ({ name: params['name'] }),
    shape: ({ id, name, version }) => ({ id, agent_id: id, name, version }),
  },
  {
    method: 'POST',
    path: '/v1/agents/{id}/execute',
    tool: 'aegis.task.execute',
    args: ({ params, query, body }) => ({ ...body, ...texts(query, 'version'), agent_id: params['id'] }),
    status: 202,
    failureStatus: executeStatus,
  },
  {
    method: 'GET',
    path: '/v1/agents/{id}/logs',
    tool: 'aegis.agent.logs',
    args: ({ params, query }) => ({ agent_id: params['id'], ...numbers(query, 'limit', 'offset') }),
  },
]

const executionOf = ({ params }: RestRequest) => ({ execution_id: params['id'] })
const pageOf = (request: RestRequest) => ({ ...executionOf(request), ...numbers(request.query, 'limit', 'offset') })

function isOfWorkflow({ query }: RestRequest): boolean {
  const isNamed = query.has('workflow_name')
  if (!isNamed || !query.has('agent_id')) return isNamed
  throw new AppError('ERR_INVALID_INPUT', 'agent_id and workflow_name: give one of them.', { field: 'agent_id' })
}

const executionRows: readonly RestRow[] = [
  {
    method: 'GET',
    path: '/v1/executions',
    tool: (request) => (isOfWorkflow(request) ? 'aegis.workflow.executions.list' : 'aegis.task.list'),
    tools: ['aegis.task.list'],
    args: (request) => ({
      ...numbers(request.query, 'limit'),
      ...(isOfWorkflow(request)
        ? { workflow_id: request.query.get('workflow_name') }
        : texts(request.query, 'agent_id')),
    }),
    shape: ({ executions }) => executions,
  },
  { method: 'GET', path: '/v1/executions/{id}', tool: 'aegis.task.status', args: executionOf },
  { method: 'DELETE', path: '/v1/executions/{id}', tool: 'aegis.task.remove', args: executionOf },
  {
    method: 'POST',
    path: '/v1/executions/{id}/cancel',
    tool: 'aegis.task.cancel',
    args: (request) => ({ ...request.body, ...executionOf(request) }),
  },
  { method: 'GET', path: '/v1/executions/{id}/logs', tool: 'aegis.task.logs', args: pageOf },
  {
    method: 'GET',
    path: '/v1/executions/{id}/files/{path...}',
    tool: 'execution_file_read',
    args: (request) => ({ ...executionOf(request), path: request.params['path'] }),
    file: ({ content, encoding }) => ({
      bytes: Buffer.from(content as string, encoding as 'utf-8' | 'base64'),
      isText: encoding === 'utf-8',
    }),
  },
]

const SCOPES = ['user', 'tenant', 'global'] as const
const SCOPE_NAMES = ['target_scope', 'scope']
const actionOf = ({ body }: RestRequest) =>
  body['action'] === undefined ? undefined : wordOf(body, ['action'], ['promote', 'demote'])
const scopeTools = { promote: 'aegis.workflow.promote', demote: 'aegis.workflow.demote' } as const

/**
 * A wider scope is a promotion, a narrower one a demotion. For the tenant, demotion is tried first: its refusal shows whether it
 * is a promotion.
 */
const scopeTool = (request: RestRequest): string =>
  scopeTools[actionOf(request) ?? (wordOf(request.body, SCOPE_NAMES, SCOPES) === 'global' ? 'promote' : 'demote')]

const workflowRows: readonly RestRow[] = [
  {
    method: 'POST',
    path: '/v1/workflows',
    tool: 'aegis.workflow.create',
    args: deploying,
    status: 201,
    isConflict,
  },
  {
    method: 'GET',
    path: '/v1/workflows',
    tool: 'aegis.workflow.list',
    args: ({ query }) => texts(query, 'scope', 'user_id'),
    shape: ({ workflows }) => workflows,
  },
  {
    method: 'GET',
    path: '/v1/workflows/{name}',
    tool: 'aegis.workflow.export',
    args: ({ params, query }) => ({ name: params['name'], ...texts(query, 'version') }),
  },
  {
    method: 'DELETE',
    path: '/v1/workflows/{name}',
    tool: 'aegis.workflow.delete',
    args: ({ params }) => ({ name: params['name'] }),
  },
  {
    method: 'GET',
    path: '/v1/workflows/{name}/versions',
    tool: 'workflow_info',
    args: ({ params }) => ({ name: params['name'] }),
    shape: ({ versions }) => versions,
  },
  {
    method: 'POST',
    path: '/v1/workflows/{name}/scope',
    tool: scopeTool,
    tools: ['aegis.workflow.demote', 'aegis.workflow.promote'],
    instead: ({ code, details }, request) =>
      code === 'ERR_INVALID_TRANSITION' && details['scope'] === 'user' && actionOf(request) === undefined
        ? scopeTools.promote
        : undefined,
    args: ({ params, body }) => {
      fieldsOf(body, ...SCOPE_NAMES, 'user_id', 'action')
      const target_scope = wordOf(body, SCOPE_NAMES, SCOPES)
      return { name: params['name'], target_scope, user_id: body['user_id'] }
    },
  },
  {
    method: 'POST',
    path: '/v1/workflows/{name}/run',
    tool: 'aegis.workflow.run',
    args: ({ params, query, body }) => ({ ...body, ...texts(query, 'version'), name: params['name'] }),
    status: 202,
  },
]

const workflowRunRows: readonly RestRow[] = [
  {
    method: 'GET',
    path: '/v1/workflows/executions',
    tool: 'aegis.workflow.executions.list',
    args: ({ query }) => {
      const { workflow_name, workflow_id = workflow_name } = texts(query, 'workflow_id', 'workflow_name')
      return { ...numbers(query, 'limit', 'offset'), workflow_id }
    },
    shape: ({ executions }) => executions,
  },
  {
    method: 'GET',
    path: '/v1/workflows/executions/{id}',
    tool: 'aegis.workflow.executions.get',
    args: executionOf,
  },
  {
    method: 'GET',
    path: '/v1/workflows/executions/{id}/logs',
    tool: 'aegis.workflow.logs',
    args: (request) => ({ limit: 100, ...pageOf(request) }),
  },
  {
    method: 'POST',
    path: '/v1/workflows/executions/{id}/signal',
    tool: 'aegis.workflow.signal',
    args: (request) => ({ ...request.body, ...executionOf(request) }),
    status: 202,
    isConflict: ({ signalled }) => signalled === false,
    shape: () => ({ status: 'signal_sent' }),
  },
  {
    method: 'POST',
    path: '/v1/workflows/executions/{id}/cancel',
    tool: 'aegis.workflow.cancel',
    args: (request) => ({ ...request.body, ...executionOf(request) }),
    isConflict: ({ cancelled }) => cancelled === false,
  },
  {
    method: 'DELETE',
    path: '/v1/workflows/executions/{id}',
    tool: 'aegis.workflow.remove',
    args: executionOf,
    isConflict: ({ removed }) => removed === false,
  },
]

/** The words that conditions of a Human state accept for yes and no, with the person's note and name. */
function answering(response: string, feedback: string | undefined, by: string | undefined): string {
  return feedback === undefined && by === undefined ? response : JSON.stringify({ response, feedback, by })
}

/** All questions to people, of both kinds. */
const approvalRows: readonly RestRow[] = [
  {
    method: 'GET',
    path: '/v1/approvals',
    tool: 'approval_list',
    args: ({ query }) => ({ ...numbers(query, 'limit'), ...texts(query, 'kind'), ...flags(query, 'answered') }),
    shape: ({ approvals }) => approvals,
  },
  {
    method: 'GET',
    path: '/v1/approvals/{id}',
    tool: 'approval_get',
    args: ({ params }) => ({ id: params['id'] }),
    shape: ({ approval }) => approval,
  },
  ...(['approve', 'deny'] as const).map(
    (decision): RestRow => ({
      method: 'POST',
      path: `/v1/approvals/{id}/${decision}`,
      tool: 'approval_answer',
      args: ({ params, body }) => {
        fieldsOf(body, 'note')
        return { id: params['id'], decision, note: textOf(body, 'note') }
      },
    }),
  ),
]

/** Waiting Human states, under the addresses that clients of workflows know; both answers are signals to the run. */
const humanApprovalRows: readonly RestRow[] = [
  {
    method: 'GET',
    path: '/v1/human-approvals',
    tool: 'approval_list',
    args: ({ query }) => ({ ...numbers(query, 'limit'), kind: 'human_state' }),
    shape: ({ approvals }) => approvals,
  },
  {
    method: 'GET',
    path: '/v1/human-approvals/{id}',
    tool: 'approval_list',
    args: executionOf,
    shape: ({ approvals }) => (approvals as unknown[])[0],
  },
  {
    method: 'POST',
    path: '/v1/human-approvals/{id}/approve',
    tool: 'aegis.workflow.signal',
    args: (request) => {
      const body = fieldsOf(request.body, 'feedback', 'approved_by')
      const response = answering('approved', textOf(body, 'feedback'), textOf(body, 'approved_by'))
      return { ...executionOf(request), response }
    },
    isConflict: ({ signalled }) => signalled === false,
    shape: ({ execution_id }) => ({ id: execution_id, status: 'approved' }),
  },
  {
    method: 'POST',
    path: '/v1/human-approvals/{id}/reject',
    tool: 'aegis.workflow.signal',
    args: (request) => {
      const body = fieldsOf(request.body, 'reason', 'rejected_by')
      const response = answering('rejected', requiredText(body, 'reason'), textOf(body, 'rejected_by'))
      return { ...executionOf(request), response }
    },
    isConflict: ({ signalled }) => signalled === false,
    shape: ({ execution_id }) => ({ id: execution_id, status: 'rejected' }),
  },
]

export const restRows: readonly RestRow[] = [
  ...agentRows,
  ...executionRows,
  ...workflowRows,
  ...workflowRunRows,
  ...approvalRows,
  ...humanApprovalRows,
  ...registryRows,
]

/**
 * Event streams of a run, or of all runs of an agent; a caller that may read the log through the tool may follow it. The tool is
 * called for one row, whose answer names the subject.
 */
export const streamRows: readonly Readonly<{ path: string; tool: string; rows: 'execution' | 'workflow' | 'agent' }>[] =
  [
    { path: '/v1/agents/{id}/events', tool: 'aegis.agent.logs', rows: 'agent' },
    { path: '/v1/executions/{id}/events', tool: 'aegis.task.logs', rows: 'execution' },
    { path: '/v1/workflows/executions/{id}/logs/stream', tool: 'aegis.workflow.logs', rows: 'workflow' },
  ]
