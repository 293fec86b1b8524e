import { MissingRequiredClientCapabilityError } from '@modelcontextprotocol/server'
import type { ExtensionCall } from '../../src/mcp/mcp-extension.ts'
import {
  declaredCapabilities,
  type FixtureTool,
  fixtureTool,
  pause,
  pixelPng,
  silentWav,
  textBlock,
  textResult,
} from './fixture-content.ts'

const STEP_MS = 50

const embedded = (uri: string, mimeType: string, text: string) => ({
  type: 'resource' as const,
  resource: { uri, mimeType, text },
})

const contentTools: readonly FixtureTool[] = [
  fixtureTool('test_simple_text', 'Answers with text.', () =>
    textResult('This is a simple text response for testing.'),
  ),
  fixtureTool('test_image_content', 'Answers with a picture.', () => ({
    content: [{ type: 'image', data: pixelPng, mimeType: 'image/png' }],
  })),
  fixtureTool('test_audio_content', 'Answers with a sound.', () => ({
    content: [{ type: 'audio', data: silentWav, mimeType: 'audio/wav' }],
  })),
  fixtureTool('test_embedded_resource', 'Answers with a resource.', () => ({
    content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  })),
  fixtureTool('test_multiple_content_types', 'Answers with text, a picture and a resource.', () => ({
    content: [
      textBlock('Multiple content types test:'),
      { type: 'image', data: pixelPng, mimeType: 'image/png' },
      embedded('test://mixed-content-resource', 'application/json', JSON.stringify({ test: 'data', value: 123 })),
    ],
  })),
  fixtureTool('test_error_handling', 'Always fails.', () => ({
    ...textResult('This tool intentionally returns an error for testing'),
    isError: true,
  })),
]

async function logSteps({ context }: ExtensionCall): Promise<void> {
  const steps = ['Tool execution started', 'Tool processing data', 'Tool execution completed']
  for (const [index, step] of steps.entries()) {
    if (index > 0) await pause(STEP_MS)
    await context.mcpReq.log('info', step)
  }
}

const notifyingTools: readonly FixtureTool[] = [
  fixtureTool('test_tool_with_logging', 'Sends three log messages.', async (_, call) => {
    await logSteps(call)
    return textResult('Tool with logging executed')
  }),
  fixtureTool('test_logging_tool', 'Sends log messages to those who asked for them.', async (_, call) => {
    await logSteps(call)
    return textResult('Logged')
  }),
  fixtureTool('test_tool_with_progress', 'Reports progress.', async (_, { context }) => {
    const progressToken = context.mcpReq._meta?.progressToken
    for (const progress of [0, 50, 100]) {
      if (progress > 0) await pause(STEP_MS)
      if (progressToken === undefined) continue
      await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } })
    }
    return textResult('Progress reported')
  }),
  fixtureTool('test_trigger_tool_change', 'Announces that the tools changed.', (_, { changed }) => {
    changed('tools')
    return textResult('Announced')
  }),
  fixtureTool('test_trigger_prompt_change', 'Announces that the prompts changed.', (_, { changed }) => {
    changed('prompts')
    return textResult('Announced')
  }),
]

const enumSchema = {
  type: 'object' as const,
  properties: {
    untitledSingle: { type: 'string' as const, enum: ['option1', 'option2', 'option3'] },
    titledSingle: {
      type: 'string' as const,
      oneOf: titled('value', ['First Option', 'Second Option', 'Third Option']),
    },
    legacyEnum: {
      type: 'string' as const,
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: {
      type: 'array' as const,
      items: { type: 'string' as const, enum: ['option1', 'option2', 'option3'] },
    },
    titledMulti: {
      type: 'array' as const,
      items: { anyOf: titled('value', ['First Choice', 'Second Choice', 'Third Choice']) },
    },
  },
}

function titled(prefix: string, titles: readonly string[]): { const: string; title: string }[] {
  return titles.map((title, index) => ({ const: `${prefix}${index + 1}`, title }))
}

const defaultsSchema = {
  type: 'object' as const,
  properties: {
    name: { type: 'string' as const, default: 'John Doe' },
    age: { type: 'integer' as const, default: 30 },
    score: { type: 'number' as const, default: 95.5 },
    status: { type: 'string' as const, enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean' as const, default: true },
  },
}

const userSchema = {
  type: 'object' as const,
  properties: {
    username: { type: 'string' as const, description: "User's response" },
    email: { type: 'string' as const, description: "User's email address" },
  },
  required: ['username', 'email'],
}

async function elicit(
  { context }: ExtensionCall,
  message: string,
  requestedSchema: typeof userSchema | typeof enumSchema | typeof defaultsSchema,
) {
  return context.mcpReq.elicitInput({ message, requestedSchema }, { relatedRequestId: context.mcpReq.id } as object)
}

const askingTools: readonly FixtureTool[] = [
  fixtureTool(
    'test_sampling',
    'Asks the client for a completion.',
    async ({ prompt }, { context }) => {
      const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: String(prompt) } }]
      const options = { relatedRequestId: context.mcpReq.id } as object
      const { content } = await context.mcpReq.requestSampling({ messages, maxTokens: 100 }, options)
      return textResult(`LLM response: ${'text' in content ? content.text : JSON.stringify(content)}`)
    },
    { prompt: { type: 'string', description: 'The prompt to send.' } },
  ),
  fixtureTool(
    'test_elicitation',
    'Asks the user a question.',
    async ({ message }, call) => {
      const { action, content } = await elicit(call, String(message), userSchema)
      return textResult(`User response: action: ${action}, content: ${JSON.stringify(content ?? {})}`)
    },
    { message: { type: 'string', description: 'The question.' } },
  ),
  fixtureTool('test_elicitation_sep1034_defaults', 'Asks with default values.', async (_, call) => {
    const { action, content } = await elicit(call, 'Please review the values', defaultsSchema)
    return textResult(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`)
  }),
  fixtureTool('test_elicitation_sep1330_enums', 'Asks with every kind of choice.', async (_, call) => {
    const { action, content } = await elicit(call, 'Please choose', enumSchema)
    return textResult(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`)
  }),
  fixtureTool('test_missing_capability', 'Needs the client to offer sampling.', (_, { context }) => {
    const declared = declaredCapabilities(context)
    if (declared?.sampling === undefined) {
      throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } })
    }
    return textResult('The client offers sampling')
  }),
]

const schemaTool: FixtureTool = {
  ...fixtureTool('json_schema_2020_12_tool', 'Has a schema with the vocabulary of JSON Schema 2020-12.', () =>
    textResult('ok'),
  ),
  listed: {
    ...fixtureTool('json_schema_2020_12_tool', 'Has a schema with the vocabulary of JSON Schema 2020-12.', () =>
      textResult('ok'),
    ).listed,
    inputSchema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: {
        address: {
          $anchor: 'addressDef',
          type: 'object',
          properties: { street: { type: 'string' }, city: { type: 'string' } },
        },
      },
      properties: {
        name: { type: 'string' },
        address: { $ref: '#/$defs/address' },
        contactMethod: { type: 'string', enum: ['phone', 'email'] },
        phone: { type: 'string' },
        email: { type: 'string' },
      },
      allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
      if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
      // biome-ignore lint/suspicious/noThenProperty: it is the JSON Schema keyword
      then: { required: ['phone'] },
      else: { required: ['email'] },
      additionalProperties: false,
    },
  },
}

export const fixtureTools: readonly FixtureTool[] = [...contentTools, ...notifyingTools, ...askingTools, schemaTool]
