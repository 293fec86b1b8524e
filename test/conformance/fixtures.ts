import {
  type GetPromptResult,
  isInputRequiredResult,
  type Prompt,
  ProtocolError,
  ProtocolErrorCode,
  type Resource,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { McpExtension, ResourceProvider } from '../../src/mcp/mcp-extension.ts'
import { pixelPng } from './fixture-content.ts'
import { roundPrompt, roundState, roundTools } from './fixture-rounds.ts'
import { taskTools } from './fixture-tasks.ts'
import { fixtureTools } from './fixture-tools.ts'

/** What the official MCP conformance suite expects a server to offer, as an extension of the transport. */
export function createConformanceFixtures(): McpExtension {
  const tools = [...fixtureTools, ...roundTools, ...taskTools]
  const byName = new Map(tools.map((tool) => [tool.listed.name, tool]))
  return {
    capabilities: {
      logging: {},
      completions: {},
      prompts: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
    },
    serverOptions: { requestState: { verify: roundState.verify } },
    tools: tools.map((tool) => tool.listed),
    async callTool(name, args, call) {
      return byName.get(name)!.run(args, call)
    },
    resources: fixtureResources,
    install,
  }
}

const resources: readonly Resource[] = [
  { uri: 'test://static-text', name: 'static-text', description: 'A text.', mimeType: 'text/plain' },
  { uri: 'test://static-binary', name: 'static-binary', description: 'A picture.', mimeType: 'image/png' },
  { uri: 'test://watched-resource', name: 'watched-resource', description: 'To subscribe to.', mimeType: 'text/plain' },
]

const fixtureResources: ResourceProvider = {
  list: async () => resources,
  templates: [
    {
      uriTemplate: 'test://template/{id}/data',
      name: 'template',
      description: 'Data of an id.',
      mimeType: 'application/json',
    },
  ],
  async read(uri) {
    if (uri === 'test://static-text') {
      return { contents: [{ uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' }] }
    }
    if (uri === 'test://static-binary') return { contents: [{ uri, mimeType: 'image/png', blob: pixelPng }] }
    if (uri === 'test://watched-resource') return { contents: [{ uri, mimeType: 'text/plain', text: 'Watched.' }] }
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1]
    if (id === undefined) return undefined
    const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` })
    return { contents: [{ uri, mimeType: 'application/json', text }] }
  },
}

const prompts: readonly Prompt[] = [
  { name: 'test_simple_prompt', description: 'A prompt without arguments.' },
  {
    name: 'test_prompt_with_arguments',
    description: 'A prompt with two arguments.',
    arguments: [
      { name: 'arg1', description: 'First test argument', required: true },
      { name: 'arg2', description: 'Second test argument', required: true },
    ],
  },
  {
    name: 'test_prompt_with_embedded_resource',
    description: 'A prompt with a resource in it.',
    arguments: [{ name: 'resourceUri', description: 'URI of the resource to embed', required: true }],
  },
  { name: 'test_prompt_with_image', description: 'A prompt with a picture in it.' },
  { name: 'test_input_required_result_prompt', description: 'A prompt that asks before it answers.' },
]

const say = (text: string) => ({ role: 'user' as const, content: { type: 'text' as const, text } })

async function getPrompt(name: string, args: Record<string, string>, context: ServerContext) {
  switch (name) {
    case 'test_simple_prompt':
      return { messages: [say('This is a simple prompt for testing.')] }
    case 'test_prompt_with_arguments':
      return { messages: [say(`Prompt with arguments: arg1='${args['arg1']}', arg2='${args['arg2']}'`)] }
    case 'test_prompt_with_embedded_resource': {
      const text = 'Embedded resource content for testing.'
      const resource = { uri: args['resourceUri'] ?? 'test://none', mimeType: 'text/plain', text }
      return {
        messages: [
          { role: 'user' as const, content: { type: 'resource' as const, resource } },
          say('Please process the embedded resource above.'),
        ],
      }
    }
    case 'test_prompt_with_image': {
      const content = { type: 'image' as const, data: pixelPng, mimeType: 'image/png' }
      return { messages: [{ role: 'user' as const, content }, say('Please analyze the image above.')] }
    }
    case 'test_input_required_result_prompt': {
      const round = await roundPrompt(context)
      return isInputRequiredResult(round) ? round : { messages: [say(`Use the context: ${round.context}`)] }
    }
    default:
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `name: there is no prompt ${name}`)
  }
}

function install(server: Server): void {
  server.setRequestHandler('prompts/list', () => ({ prompts: [...prompts] }))
  server.setRequestHandler('prompts/get', async ({ params }, context) => {
    return (await getPrompt(params.name, params.arguments ?? {}, context)) as GetPromptResult
  })
  server.setRequestHandler('completion/complete', ({ params }) => {
    const values = ['paris', 'park', 'party'].filter((value) => value.startsWith(params.argument.value))
    return { completion: { values, total: values.length, hasMore: false } }
  })
  server.setRequestHandler('resources/subscribe', () => ({}))
  server.setRequestHandler('resources/unsubscribe', () => ({}))
}
