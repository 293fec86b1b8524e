import { z } from 'zod'
import { group, rule, secret, wholeNumber } from './config-parts.ts'

/** Bounds of the tools for files, commands and the web. */
export const commandsSection = group(
  {
    timeout_secs: wholeNumber(60, 1, 86_400, 'Default time limit in seconds of a command of cmd.run.'),
    timeout_ceiling_secs: wholeNumber(
      300,
      1,
      86_400,
      'Longest time limit in seconds that a call of cmd.run may ask for.',
    ),
    max_output_bytes: wholeNumber(
      512 * 1024,
      1,
      2 * 1024 * 1024,
      'Bytes that a command of cmd.run may print, both streams together. A command that prints more is ended.',
    ),
  },
  'Commands of cmd.run.',
)

const networkRule = rule('a list of addresses or networks such as 10.1.0.0/16 or ::1')
const network = z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], networkRule)
const searchEngines = ['duckduckgo', 'brave', 'searxng', 'tavily'] as const
const urlRule = rule('an http:// or https:// URL')

export const webSection = group(
  {
    allow_private_addresses: z
      .array(network, networkRule)
      .max(1_000, networkRule)
      .default([])
      .describe(
        'Addresses and networks that web.fetch, remote MCP servers and webhooks may reach even though they are private: of this machine, of its network or of its cloud provider. Every caller of those tools can then use anything that listens there without a password.',
      ),
    max_response_bytes: wholeNumber(
      5 * 1024 * 1024,
      1_024,
      64 * 1024 * 1024,
      'Bytes of one answer from the web, after decompression. A longer answer is refused.',
    ),
    search_engine: z
      .enum(searchEngines, rule(`one of ${searchEngines.join(', ')}`))
      .default('duckduckgo')
      .describe('Search engine of web.search. brave and tavily need search_key, searxng needs search_url.'),
    search_url: z
      .string(urlRule)
      .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), urlRule)
      .optional()
      .describe(
        'Address of the search engine, if it is not the usual one. It may be private. For searxng, the address of the instance.',
      ),
    search_key: z
      .string(rule('a key, or env:NAME'))
      .min(1, rule('a key, or env:NAME'))
      .optional()
      .meta(secret)
      .describe('Key for the search engine. Accepts `env:NAME`.'),
  },
  'What web.fetch and web.search may reach.',
)

export const mcpServersSection = group(
  {
    idle_secs: wholeNumber(600, 1, 86_400, 'Seconds without a call after which an MCP server is stopped.'),
    start_timeout_secs: wholeNumber(60, 1, 3_600, 'Seconds that an MCP server has from its start to its first answer.'),
    call_timeout_secs: wholeNumber(
      300,
      1,
      86_400,
      'Seconds that one tool call at an MCP server may take. Each progress report of the server restarts the time.',
    ),
    max_running: wholeNumber(
      32,
      1,
      1_000,
      'Number of MCP servers that are connected at once. To connect another one, Castellan disconnects an idle one.',
    ),
  },
  'MCP servers behind this one.',
)

const textRule = rule('text that is not empty')
const text = () => z.string(textRule).min(1, textRule).max(1_024, textRule)
const texts = () => z.array(text(), rule('a list of strings')).max(1_000, rule('a list of at most 1000'))
const count = (min: number) => {
  const message = rule(`a whole number of at least ${min}`)
  return z.int(message).min(min, message).max(1_000_000_000, message)
}
const nameRule = rule('1 to 128 letters, digits, ".", "_" or "-"')
const toolPatternRule = rule('*, a prefix such as fs.*, or the name of a tool')

const capability = z.strictObject(
  {
    tool_pattern: z.string(toolPatternRule).regex(/^(\*|[a-z0-9_.]+(\.\*)?)$/, toolPatternRule),
    path_allowlist: z
      .array(z.string(rule('an absolute path')).startsWith('/', rule('an absolute path')))
      .max(1_000)
      .optional(),
    command_allowlist: texts().optional(),
    subcommand_allowlist: z
      .union([z.record(text(), texts()), texts()], rule('a list of commands, or for each command a list of words'))
      .optional(),
    domain_allowlist: texts().optional(),
    domain_denylist: texts().optional(),
    max_response_size: count(1).optional(),
    rate_limit: z.strictObject({ calls: count(0), per_seconds: count(1) }).optional(),
    max_concurrent: count(0).optional(),
  },
  rule('an object'),
)

export const securityContextsSection = z
  .array(
    z.strictObject(
      {
        name: z.string(nameRule).regex(/^[A-Za-z0-9._-]{1,128}$/, nameRule),
        description: z.string(textRule).max(1_024, textRule).default(''),
        capabilities: z.array(capability, rule('a list of capabilities')).max(1_000).default([]),
        deny_list: texts().default([]),
      },
      rule('an object'),
    ),
    rule('a list of security contexts'),
  )
  .max(1_000)
  .default([])
  .describe(
    'Security contexts by name. A context restricts what callers and agents may do with their permissions; one with the name of a shipped context replaces it. Each: `name`, `capabilities` (`tool_pattern` and lists that restrict it), `deny_list`.',
  )

export const governanceField = z
  .enum(['permissive', 'restrictive'], rule('one of permissive, restrictive'))
  .default('permissive')
  .describe(
    "What a tool without a policy may do in a context that has read untrusted data: `permissive` allows it; `restrictive` refuses tools of MCP servers and Castellan's own tools that send data out. Policies apply in both.",
  )
