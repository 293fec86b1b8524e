import type { PricedProvider } from './ports.ts'

/**
 * The longest answers of the public models, with their reasoning, as far as we know them: the register of prices does not say. The
 * first that matches counts. A model that is not here has the largest of its provider.
 */
const longest: Readonly<Record<PricedProvider['protocol']['name'], readonly (readonly [RegExp, number])[]>> = {
  openai: [
    [/(?:^|[/:])gpt-3\.5|(?:^|[/:])gpt-4-(?:turbo|1106|0125|vision)/i, 4_096],
    [/(?:^|[/:])gpt-4(?:$|-)/i, 8_192],
    [/(?:^|[/:])(?:gpt-4o|chatgpt-4o|gpt-5-chat|gpt-audio)/i, 16_384],
    [/(?:^|[/:])gpt-4\.1/i, 32_768],
    [/./, 128_000],
  ],
  anthropic: [[/./, 128_000]],
  gemini: [
    [/gemini-(?:1|2\.0)/i, 8_192],
    [/./, 65_536],
  ],
}

/**
 * The most tokens of an answer that a request does not bound, as far as that is known: undefined for a model of another server without a
 * configured context.
 */
export function longestAnswer(
  { isPublic, protocol }: Pick<PricedProvider, 'isPublic' | 'protocol'>,
  model: string,
  context: number | undefined,
): number | undefined {
  if (!isPublic) return context
  const [, tokens = context] = longest[protocol.name].find(([pattern]) => pattern.test(model)) ?? []
  return tokens === undefined || context === undefined ? tokens : Math.min(tokens, context)
}
