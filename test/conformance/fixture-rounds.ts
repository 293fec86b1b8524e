import {
  acceptedContent,
  createRequestStateCodec,
  type InputRequest,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { declaredCapabilities, type FixtureTool, fixtureTool, textResult } from './fixture-content.ts'

/** The fixtures that answer "input required" and finish when the client calls again with the input. */
type RoundState = Readonly<{ step: string }>

export const roundState = createRequestStateCodec({ key: 'conformance fixtures sign with a public key' })

const ask = (message: string, properties: Record<string, { type: string }>): InputRequest =>
  ({
    method: 'elicitation/create',
    params: { message, requestedSchema: { type: 'object', properties, required: Object.keys(properties) } },
  }) as InputRequest

const sample = (text: string, maxTokens: number): InputRequest => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text } }], maxTokens },
})

const askName = ask('What is your name?', { name: { type: 'string' } })
const askRoots: InputRequest = { method: 'roots/list', params: {} }

async function again(inputRequests: InputRequests, step?: string): Promise<InputRequiredResult> {
  if (step === undefined) return inputRequired({ inputRequests })
  return inputRequired({ inputRequests, requestState: await roundState.mint({ step }) })
}

const accepted = (context: ServerContext, key: string) => acceptedContent(context.mcpReq.inputResponses, key)
const stepOf = (context: ServerContext): string | undefined => context.mcpReq.requestState<RoundState>()?.step

const confirmTool = (name: string): FixtureTool =>
  fixtureTool(name, 'Keeps signed state between rounds.', async (_, { context }) => {
    const confirmed = accepted(context, 'confirm')
    if (confirmed === undefined || stepOf(context) !== 'confirm') {
      return again({ confirm: ask('Please confirm', { ok: { type: 'boolean' } }) }, 'confirm')
    }
    return textResult('Confirmed, state-ok')
  })

export const roundTools: readonly FixtureTool[] = [
  fixtureTool('test_input_required_result_elicitation', 'Asks for a name.', async (_, { context }) => {
    const name = accepted(context, 'user_name')?.['name']
    return typeof name === 'string' ? textResult(`Hello, ${name}!`) : again({ user_name: askName })
  }),
  fixtureTool('test_streaming_elicitation', 'Asks for a name.', async (_, { context }) => {
    const name = accepted(context, 'user_name')?.['name']
    return typeof name === 'string' ? textResult(`Hello, ${name}!`) : again({ user_name: askName })
  }),
  fixtureTool('test_input_required_result_sampling', 'Asks the client for a completion.', async (_, { context }) => {
    const response = inputResponse(context.mcpReq.inputResponses, 'capital_question')
    if (response.kind !== 'sampling') return again({ capital_question: sample('What is the capital of France?', 100) })
    return textResult(`Sampled: ${JSON.stringify(response.result.content)}`)
  }),
  fixtureTool('test_input_required_result_list_roots', 'Asks for the roots.', async (_, { context }) => {
    const response = inputResponse(context.mcpReq.inputResponses, 'client_roots')
    if (response.kind !== 'roots') return again({ client_roots: askRoots })
    return textResult(`Roots: ${response.roots.map((root) => root.uri).join(', ')}`)
  }),
  confirmTool('test_input_required_result_request_state'),
  confirmTool('test_input_required_result_tampered_state'),
  fixtureTool('test_input_required_result_multiple_inputs', 'Asks three things at once.', async (_, { context }) => {
    const responses = context.mcpReq.inputResponses ?? {}
    const complete = ['user_name', 'greeting', 'client_roots'].every((key) => key in responses)
    if (complete && stepOf(context) === 'all') return textResult('All three arrived')
    return again({ user_name: askName, greeting: sample('Generate a greeting', 50), client_roots: askRoots }, 'all')
  }),
  fixtureTool(
    'test_input_required_result_multi_round',
    'Asks two things one after the other.',
    async (_, { context }) => {
      const step = stepOf(context)
      if (step === 'second' && accepted(context, 'step2') !== undefined) return textResult('Both rounds are done')
      if (step === 'first' && accepted(context, 'step1') !== undefined) {
        return again({ step2: ask('Step 2: What is your favorite color?', { color: { type: 'string' } }) }, 'second')
      }
      return again({ step1: ask('Step 1: What is your name?', { name: { type: 'string' } }) }, 'first')
    },
  ),
  fixtureTool(
    'test_input_required_result_capabilities',
    'Asks only what the client can answer.',
    async (_, { context }) => {
      const declared = declaredCapabilities(context)
      const requests: Record<string, InputRequest> = {}
      if (declared?.sampling !== undefined) requests['sampled'] = sample('Say hello', 20)
      if (declared?.elicitation !== undefined) requests['user_name'] = askName
      if (declared?.roots !== undefined) requests['client_roots'] = askRoots
      const arrived = Object.keys(context.mcpReq.inputResponses ?? {}).length > 0
      return arrived || Object.keys(requests).length === 0 ? textResult('Nothing more to ask') : again(requests)
    },
  ),
]

/** The prompt that asks before it answers. */
export async function roundPrompt(context: ServerContext): Promise<InputRequiredResult | { context: string }> {
  const value = accepted(context, 'user_context')?.['context']
  if (typeof value === 'string') return { context: value }
  return again({ user_context: ask('What context should the prompt use?', { context: { type: 'string' } }) })
}
