import type { LanguageModel, ModelMessage as SdkMessage, ToolSet } from 'ai'
import type { ModelErrorClass, ModelMessage, ModelRequest, ModelToolCall } from '../domains/executions/model.ts'
import type { Json } from '../kernel/canonical-json.ts'
import { type Ask, compatibleUrl, type ModelSettings, type ProviderSettings, TryFailure } from './ports.ts'
import { readStream, StreamError } from './read-stream.ts'
import { safeToolNames } from './tool-names.ts'

type Sdk = typeof import('ai')
type Options = Readonly<Record<string, Record<string, never>>>

/** One request through the AI SDK, which is loaded now, so that servers without models never pay for it. */
export const callProvider: Ask = async ({ provider, model }, request, signal, fetch) => {
  const [sdk, language] = await Promise.all([import('ai'), languageModel(provider, model, fetch)])
  // Its warnings would go to standard output, which belongs to the protocol.
  globalThis.AI_SDK_LOG_WARNINGS = false
  const names = safeToolNames(request.tools.map(({ name }) => name))
  try {
    const question = {
      model: language,
      ...(request.system === null ? {} : { instructions: request.system }),
      messages: request.messages.map((message) => toSdkMessage(message, names.safeOf)),
      tools: toSdkTools(sdk, request, names.safeOf),
      ...optional('temperature', request.temperature ?? model.temperature),
      ...optional('maxOutputTokens', request.maxOutputTokens ?? model.maxOutputTokens),
      maxRetries: 0,
      abortSignal: signal,
    }
    const answer = provider.isStreamed
      ? await readStream(sdk.streamText({ ...question, onError: () => {} }).stream)
      : await sdk.generateText(question)
    return {
      text: answer.text,
      toolCalls: answer.toolCalls.map((call): ModelToolCall => {
        const opaque = call.providerMetadata as Json | undefined
        return {
          id: call.toolCallId,
          name: names.realOf(call.toolName),
          arguments: (call.input ?? {}) as Json,
          ...(opaque === undefined ? {} : { opaque }),
        }
      }),
      provider: provider.name,
      model: model.model,
      finishReason: answer.finishReason,
    }
  } catch (error) {
    if (signal.aborted) throw error
    throw toTryFailure(sdk, error)
  }
}

async function languageModel(
  provider: ProviderSettings,
  { model }: ModelSettings,
  fetch: typeof globalThis.fetch,
): Promise<LanguageModel> {
  const { endpoint, name } = provider
  const apiKey = provider.apiKey ?? 'none'
  const base = { fetch, ...(endpoint !== null && { baseURL: endpoint }) }
  switch (provider.type) {
    case 'openai': {
      const { createOpenAI } = await import('@ai-sdk/openai')
      return createOpenAI({ ...base, apiKey }).chat(model)
    }
    case 'anthropic': {
      const { createAnthropic } = await import('@ai-sdk/anthropic')
      return createAnthropic({ ...base, apiKey })(model)
    }
    case 'gemini': {
      const { createGoogleGenerativeAI } = await import('@ai-sdk/google')
      return createGoogleGenerativeAI({ ...base, apiKey })(model)
    }
    case 'ollama':
    case 'openai-compatible': {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
      const baseURL = compatibleUrl(provider)
      const key = provider.apiKey === null ? {} : { apiKey }
      return createOpenAICompatible({ name, baseURL, fetch, includeUsage: true, ...key })(model)
    }
  }
}

const toSdkTools = (sdk: Sdk, { tools }: ModelRequest, safeOf: (name: string) => string): ToolSet =>
  Object.fromEntries(
    tools.map(({ name, description, inputSchema }) => [
      safeOf(name),
      sdk.dynamicTool({
        description,
        inputSchema: sdk.jsonSchema(inputSchema as Parameters<Sdk['jsonSchema']>[0]),
        // Tools are run by the loop, never here.
        execute: undefined as never,
      }),
    ]),
  )

function toSdkMessage(message: ModelMessage, safeOf: (name: string) => string): SdkMessage {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: message.text }
    case 'assistant':
      return {
        role: 'assistant',
        content: [
          ...(message.text === '' ? [] : [{ type: 'text' as const, text: message.text }]),
          ...message.toolCalls.map((call) => ({
            type: 'tool-call' as const,
            toolCallId: call.id,
            toolName: safeOf(call.name),
            input: call.arguments,
            ...(call.opaque === undefined ? {} : { providerOptions: call.opaque as unknown as Options }),
          })),
        ],
      }
    case 'tool':
      return {
        role: 'tool',
        content: [
          {
            type: 'tool-result',
            toolCallId: message.callId,
            toolName: safeOf(message.name),
            output: { type: message.isError ? 'error-text' : 'text', value: message.text },
          },
        ],
      }
  }
}

const optional = <Name extends string>(name: Name, value: number | null): { [N in Name]?: number } =>
  (value === null ? {} : { [name]: value }) as { [N in Name]?: number }

function toTryFailure(sdk: Sdk, error: unknown): TryFailure {
  if (error instanceof TryFailure) return error
  if (error instanceof StreamError) return toStreamFailure(sdk, error)
  if (sdk.APICallError.isInstance(error)) {
    const status = error.statusCode ?? null
    // An answer that began and never ended.
    if (isOfNetwork(error.cause)) return new TryFailure('network', status, null, error)
    return new TryFailure(classOf(status), status, retryAfter(error.responseHeaders), error)
  }
  if (sdk.NoSuchModelError.isInstance(error)) return new TryFailure('model_not_found', null, null, error)
  if (sdk.LoadAPIKeyError.isInstance(error)) return new TryFailure('authentication', null, null, error)
  if (sdk.InvalidPromptError.isInstance(error)) return new TryFailure('invalid_input', null, null, error)
  if (isOfNetwork(error)) return new TryFailure('network', null, null, error)
  return new TryFailure('provider', null, null, error)
}

/**
 * A broken connection shows in many ways; a provider that ends its own answer gives a status, and invalid data is the provider's
 * fault.
 */
function toStreamFailure(sdk: Sdk, { cause, hasStarted }: StreamError): TryFailure {
  const status = (cause as { statusCode?: unknown } | null | undefined)?.statusCode
  if (!(cause instanceof Error) && typeof status === 'number' && status >= 400)
    return new TryFailure(classOf(status), status, null, cause)
  if (sdk.JSONParseError.isInstance(cause) || sdk.TypeValidationError.isInstance(cause))
    return new TryFailure('provider', null, null, cause)
  const hasStopped = sdk.NoOutputGeneratedError.isInstance(cause) || sdk.InvalidResponseDataError.isInstance(cause)
  return hasStarted || hasStopped ? new TryFailure('network', null, null, cause) : toTryFailure(sdk, cause)
}

const isOfNetwork = (error: unknown): boolean =>
  error instanceof TypeError && /fetch|network|terminated/i.test(error.message)

function classOf(status: number | null): ModelErrorClass {
  if (status === null) return 'network'
  if (status === 401 || status === 403) return 'authentication'
  if (status === 404) return 'model_not_found'
  if (status === 408) return 'timeout'
  if (status === 429) return 'rate_limit'
  if (status >= 500) return 'service_unavailable'
  return status >= 400 ? 'invalid_input' : 'provider'
}

function retryAfter(headers: Readonly<Record<string, string>> | undefined): number | null {
  const seconds = Number(headers?.['retry-after'])
  return Number.isFinite(seconds) && seconds >= 0 && headers?.['retry-after'] !== undefined ? seconds * 1000 : null
}
