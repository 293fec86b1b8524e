/**
 * Agents, executions and workflows under the addresses that their clients know. Every row is a call of a tool: what the
 * tool's definition demands is demanded here too, and a row whose tool is not there is not served.
 */
export type RestRequest = Readonly<{
  params: Readonly<Record<string, string>>
  query: URLSearchParams
  body: Readonly<Record<string, unknown>>
}>

export type RestRow = Readonly<{
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  /** The first one that there is, of those that a request could mean. */
  tool: string | ((request: RestRequest) => string)
  /** Named where `tool` is chosen for each request. */
  tools?: readonly string[]
  args(request: RestRequest): Readonly<Record<string, unknown>>
  /** For success, 200 if absent. */
  status?: number
  /** The answer says that it could not be done as things are. */
  isConflict?(answer: Readonly<Record<string, unknown>>): boolean
  /** What is shown of the tool's answer; all if absent. */
  shape?(answer: Readonly<Record<string, unknown>>): unknown
  /** The answer holds a file, which is sent as it is. */
  file?(answer: Readonly<Record<string, unknown>>): Readonly<{ bytes: Buffer; isText: boolean }>
}>

/** As a number if it is one; otherwise as it is, so that the tool says what is wrong with it. */
const numbers = (query: URLSearchParams, ...names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const text = query.get(name)
      return text === null ? [] : [[name, /^\d{1,15}$/.test(text) ? Number(text) : text]]
    }),
  )
const texts = (query: URLSearchParams, ...names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(names.flatMap((name) => (query.get(name) === null ? [] : [[name, query.get(name)]])))
/** `?force` alone means yes. */
const flags = (query: URLSearchParams, ...names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const text = query.get(name)
      if (text === null) return []
      return [
        [name, text === '' || text === 'true' || text === '1' ? true : text === 'false' || text === '0' ? false : text],
      ]
    }),
  )

/** A manifest is the body itself, which as JSON is YAML too, or a text inside it. */
const manifestOf = (body: RestRequest['body']): Record<string, unknown> => ({
  manifest_yaml: body['manifest_yaml'] ?? (Object.keys(body).length === 0 ? undefined : JSON.stringify(body)),
})
const deploying = ({ query, body }: RestRequest) => ({
  ...manifestOf(body),
  ...flags(query, 'force'),
  ...texts(query, 'scope'),
})

const agentRows: readonly RestRow[] = [
  {
    method: 'POST',
    path: '/v1/agents',
    tool: 'aegis.agent.create',
    args: deploying,
    status: 201,
    isConflict: ({ status }) => status === 'conflict',
  },
  {
    method: 'GET',
    path: '/v1/agents',
    tool: 'aegis.agent.list',
    args: ({ query }) => ({
      ...numbers(query, 'limit', 'offset'),
      ...texts(query, 'status'),
      ...flags(query, 'include_platform_templates'),
    }),
    shape: ({ agents }) => agents,
  },
  {
    method: 'GET',
    path: '/v1/agents/{id}',
    tool: 'agent_info',
    args: ({ params, query }) => ({ agent_id: params['id'], ...texts(query, 'version') }),
  },
  { method: 'PATCH', path: '/v1/agents/{id}', tool: 'aegis.agent.update', args: deploying },
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
    args: ({ params, body }) => ({ agent_id: params['id'], scope: scopeOf(body) }),
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
    shape: ({ id, name, version }) => ({ agent_id: id, name, version }),
  },
  {
    method: 'POST',
    path: '/v1/agents/{id}/execute',
    tool: 'aegis.task.execute',
    args: ({ params, query, body }) => ({ ...body, ...texts(query, 'version'), agent_id: params['id'] }),
    status: 202,
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

const isOfWorkflow = ({ query }: RestRequest): boolean => query.has('workflow_name')

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

/** Towards everybody is up, towards one person is down; between the two the request says so. */
const isDemotion = ({ body }: RestRequest): boolean =>
  body['action'] === 'demote' || (body['action'] === undefined && scopeOf(body) !== 'global')
const scopeOf = (body: RestRequest['body']): unknown => body['target_scope'] ?? body['scope']

const workflowRows: readonly RestRow[] = [
  {
    method: 'POST',
    path: '/v1/workflows',
    tool: 'aegis.workflow.create',
    args: deploying,
    status: 201,
    isConflict: ({ status }) => status === 'conflict',
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
    tool: (request) => (isDemotion(request) ? 'aegis.workflow.demote' : 'aegis.workflow.promote'),
    tools: ['aegis.workflow.demote', 'aegis.workflow.promote'],
    args: ({ params, body }) => ({ name: params['name'], target_scope: scopeOf(body), user_id: body['user_id'] }),
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
  { method: 'GET', path: '/v1/workflows/executions/{id}/logs', tool: 'aegis.workflow.logs', args: pageOf },
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

/** The words that conditions of a Human state take for yes and no, with what the person adds and who it says it is. */
function answering(response: string, feedback: unknown, by: unknown): string {
  const given = Object.entries({ feedback, by }).filter(([, value]) => value !== undefined && value !== null)
  return given.length === 0 ? response : JSON.stringify({ response, ...Object.fromEntries(given) })
}

/** A waiting Human state is an approval; both answers are signals to its run. */
const approvalRows: readonly RestRow[] = [
  {
    method: 'GET',
    path: '/v1/human-approvals',
    tool: 'approval_list',
    args: ({ query }) => numbers(query, 'limit'),
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
    args: (request) => ({
      ...executionOf(request),
      response: answering('approved', request.body['feedback'], request.body['approved_by']),
    }),
    isConflict: ({ signalled }) => signalled === false,
    shape: ({ execution_id }) => ({ id: execution_id, status: 'approved' }),
  },
  {
    method: 'POST',
    path: '/v1/human-approvals/{id}/reject',
    tool: 'aegis.workflow.signal',
    args: (request) => ({
      ...executionOf(request),
      response: answering('rejected', request.body['reason'], request.body['rejected_by']),
    }),
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
]

/**
 * Streams of what becomes of a run, or of all runs of an agent; whoever may read the log through the tool may follow it.
 * The tool is asked for one row: what it answers names the subject.
 */
export const streamRows: readonly Readonly<{ path: string; tool: string; rows: 'execution' | 'workflow' | 'agent' }>[] =
  [
    { path: '/v1/agents/{id}/events', tool: 'aegis.agent.logs', rows: 'agent' },
    { path: '/v1/executions/{id}/events', tool: 'aegis.task.logs', rows: 'execution' },
    { path: '/v1/workflows/executions/{id}/logs/stream', tool: 'aegis.workflow.logs', rows: 'workflow' },
  ]
