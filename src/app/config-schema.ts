import { z } from 'zod'
import { zaruModes } from '../tools/runtime/zaru-modes.ts'
import { executionsSection, judgingSection, modelsSection, workflowsSection } from './config-executions.ts'
import { approvalsSection, limitsSection, sanitiserSection } from './config-governance.ts'
import { interactionsSection } from './config-interactions.ts'
import { listeningFields, webPageFields } from './config-listening.ts'
import { modelProxySection } from './config-model-proxy.ts'
import { bucket, flag, group, listOf, rule, secret, wholeNumber } from './config-parts.ts'
import { peopleFields } from './config-people.ts'
import { searchSection } from './config-search.ts'
import {
  commandsSection,
  governanceField,
  mcpServersSection,
  securityContextsSection,
  webSection,
} from './config-tools.ts'
import { vaultSection } from './config-vault.ts'

const modes = ['FULL', 'READONLY', 'TEST', 'MINIMAL'] as const
const logLevels = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof logLevels)[number]

const dnsServerRule = rule('an IPv4 address that is not a loopback one')
const portRangeRule = rule('two ports from 1024 to 65535 such as 20000-31999, the smaller first')
const mountRule = rule('a list of objects with mode (ro or rw), path (absolute) and perhaps tenant')
const credentialRule = rule('a list of objects with host, header and value (env:NAME)')
const databaseUrlRule = rule('a postgres:// or postgresql:// URL, or env:NAME')

const isPortRange = (text: string): boolean => {
  const [, first = 0, last = 0] = (/^(\d{4,5})-(\d{4,5})$/.exec(text) ?? []).map(Number)
  return first >= 1024 && first <= last && last <= 65_535
}

/** The configuration file. The names here are the names in the file, in `config show` and in the program. */
export const configSchema = z
  .strictObject(
    {
      ...listeningFields,
      ...peopleFields,
      data_dir: z
        .string(rule('a directory path'))
        .min(1, rule('a directory path'))
        .optional()
        .describe(
          'Directory of the embedded state. Default: `$XDG_DATA_HOME/castellan`, or `~/.local/share/castellan`. A relative path in the file starts at the file; `~/` is the home directory.',
        ),
      database_url: z
        .string(databaseUrlRule)
        .regex(/^(postgres(ql)?:\/\/.|env:[A-Za-z_][A-Za-z0-9_]*$)/, databaseUrlRule)
        .optional()
        .meta(secret)
        .describe('PostgreSQL URL. When set, the state is there instead of in the data directory. Accepts `env:NAME`.'),
      secret_key: z
        .string(rule('a key, or env:NAME'))
        .min(1, rule('a key, or env:NAME'))
        .optional()
        .meta(secret)
        .describe(
          'Key that secrets are encrypted with: 32 bytes in base64 or hexadecimal. Default: one in the data directory. With several, separated by commas, the first encrypts, and `castellan secrets rotate` moves everything to it. Accepts `env:NAME`.',
        ),
      mode: z
        .enum(modes, rule(`one of ${modes.join(', ')}`))
        .default('FULL')
        .describe(
          'FULL has all tools, READONLY only those that read, TEST all tools on a separate test store, MINIMAL only server_ping and server_health.',
        ),
      tools: z
        .union(
          [z.enum(['default', 'full']), z.array(z.string().min(1)).min(1)],
          rule('"default", "full", or a list of toolset and tool names'),
        )
        .default('default')
        .describe(
          '`default` shows a curated set with search_tools and run_tool, `full` every tool, a list the named toolsets and tools.',
        ),
      zaru_mode: z
        .enum(zaruModes, rule(`one of ${zaruModes.join(', ')}`))
        .optional()
        .describe(
          'Conversation mode of connections that choose none: only its tools are listed and can be called. Over HTTP an address chooses with `?mode=`.',
        ),
      log_level: z
        .enum(logLevels, rule(`one of ${logLevels.join(', ')}`))
        .default('info')
        .describe('Minimum level of the messages on standard error.'),
      governance: governanceField,
      approvals: approvalsSection,
      rate_limits: group(
        {
          enabled: flag(true, 'Whether calls are rate limited at all.'),
          owner: group(
            { enabled: flag(false, 'Whether the limits also apply to the local owner.') },
            'The person at this machine, on loopback or stdio.',
          ),
          create: bucket(5, 3, 'tools that create something costly'),
          exec: bucket(60, 10, 'tools that run something'),
          default: bucket(120, 20, 'all other tools'),
          message: bucket(300, 50, 'tools that send messages'),
        },
        'Token buckets for each principal and category. What the platform does for a run is not counted.',
      ),
      limits: limitsSection,
      sanitiser: sanitiserSection,
      interactions: interactionsSection,
      ledger: group(
        {
          strict_projects: flag(
            false,
            'Refuse a task of an unknown project (ERR_PROJECT_NOT_FOUND) instead of creating the project.',
          ),
        },
        'Tasks and projects.',
      ),
      audit: group(
        {
          read_records: z
            .enum(['batched', 'strict'], rule('one of batched, strict'))
            .default('batched')
            .describe(
              '`batched` answers a read-only call before its record is on disk; `strict` waits for the record.',
            ),
          checkpoint_interval_ms: wholeNumber(
            1000,
            10,
            3_600_000,
            'Longest time between two signed checkpoints while records arrive.',
          ),
        },
        'The log of all calls.',
      ),
      skills: group(
        {
          roots: listOf('a directory path')
            .default([])
            .describe(
              'Directories whose `.agents/skills/*/SKILL.md` are offered. Empty: the working directory and the data directory.',
            ),
        },
        'Skills.',
      ),
      vault: vaultSection,
      workspaces: group(
        {
          default_image: z
            .string(rule('the name of an image'))
            .min(1, rule('the name of an image'))
            .max(128, rule('the name of an image'))
            .default('host')
            .describe("Image of a workspace that names none; `host` is this machine's own programs, read-only."),
          default_vcpus: wholeNumber(2, 1, 1024, 'Processors of a workspace that names no number.'),
          default_memory_mb: wholeNumber(2048, 16, 16_777_216, 'Memory in MiB of a workspace that names none.'),
          default_disk_gb: wholeNumber(10, 1, 1_048_576, 'Disk in GiB of a workspace that names none.'),
          max_vcpus: wholeNumber(8, 1, 1024, 'Processors that one workspace may have.'),
          max_memory_mb: wholeNumber(8192, 16, 16_777_216, 'Memory in MiB that one workspace may have.'),
          max_disk_gb: wholeNumber(100, 1, 1_048_576, 'Disk in GiB that one workspace may have.'),
          max_workspaces: wholeNumber(
            100,
            0,
            100_000,
            'Workspaces on this machine, over all owners. A tenth of them, at least one, is reserved for the local owner.',
          ),
          quota: group(
            {
              workspaces: wholeNumber(10, 0, 100_000, 'Workspaces of one owner.'),
              memory_mb: wholeNumber(32_768, 0, 1_000_000_000, 'Memory in MiB over all workspaces of one owner.'),
              disk_gb: wholeNumber(100, 0, 1_000_000_000, 'Disk in GiB over all workspaces of one owner.'),
              transfer_mb: wholeNumber(
                10_240,
                0,
                1_000_000_000,
                'Size in MiB over all files that one owner copied out of workspaces into the transfer directory.',
              ),
            },
            'What each owner may have. The local owner has no quota.',
          ),
          max_snapshots_per_workspace: wholeNumber(20, 0, 1000, 'Snapshots that one workspace may have.'),
          max_concurrent_forks: wholeNumber(10, 1, 100, 'Forks that are created at the same time.'),
          default_allow_internet: flag(false, 'Whether a workspace that does not say so may reach the internet.'),
          transfer_dir: z
            .string(rule('a directory path'))
            .min(1, rule('a directory path'))
            .optional()
            .describe('Directory that file_transfer copies from and to. Default: `transfers` in the data directory.'),
          max_transfer_mb: wholeNumber(10_240, 1, 1_000_000_000, 'Size in MiB of a file that file_transfer copies.'),
          mounts: z
            .array(
              z.strictObject(
                {
                  mode: z.enum(['ro', 'rw'], mountRule),
                  path: z.string(mountRule).regex(/^\/[^\n\0]*$/, mountRule),
                  tenant: z
                    .string(mountRule)
                    .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, mountRule)
                    .optional(),
                },
                mountRule,
              ),
              mountRule,
            )
            .max(32, mountRule)
            .default([])
            .describe(
              'Folders of this machine that workspace_create may mount, they and what is below them. Each: `path`, `mode` (`ro` for reading, `rw` also for writing), and `tenant` if it is for all callers of a tenant; without that it is for the person at this machine alone.',
            ),
          credentials: z
            .array(
              z.strictObject(
                {
                  host: z.string(credentialRule).regex(/^[A-Za-z0-9.:-]+$/, credentialRule),
                  header: z.string(credentialRule).regex(/^[A-Za-z0-9-]+$/, credentialRule),
                  value: z.string(credentialRule).regex(/^env:[A-Za-z_][A-Za-z0-9_]*$/, credentialRule),
                },
                credentialRule,
              ),
              credentialRule,
            )
            .max(100, credentialRule)
            .default([])
            .describe(
              "Headers that the egress proxy puts on requests of the tenant `local`'s workspaces to a host in their `allowed_domains`, each with `host`, `header` and `value` as `env:NAME`, such as `api.github.com`, `Authorization` and `env:GITHUB_AUTHORIZATION`. The secret never enters a workspace.",
            ),
          ca_file: z
            .string(rule('the path of a file'))
            .min(1, rule('the path of a file'))
            .optional()
            .describe(
              "PEM file of certificate authorities that the egress proxy and workspaces trust in addition to this machine's own, such as a company's.",
            ),
          dns_server: z
            .ipv4(dnsServerRule)
            .refine((address) => !/^(127|0)\./.test(address), dnsServerRule)
            .optional()
            .describe(
              "IPv4 address of the name server that workspaces and the egress proxy ask; it may be a private one, which they then reach for names only. Default: this machine's own.",
            ),
          forward_ports: z
            .string(portRangeRule)
            .refine(isPortRange, portRangeRule)
            .default('20000-31999')
            .describe(
              'Ports of this machine that port_forward may use. Operators of the tenant `local` may ask for any from 1024.',
            ),
          store_gb: wholeNumber(
            64,
            0,
            65_536,
            'With root: largest size in GiB of the file that holds the disks of all workspaces; it grows as needed. 0 uses plain folders, without disk limits.',
          ),
          host_reserve_mb: wholeNumber(
            512,
            64,
            1_048_576,
            'Space in MiB that workspaces and transfers always leave free on the disk of the data directory.',
          ),
          tenant_share_percent: wholeNumber(
            80,
            1,
            100,
            'The largest part, in percent, that one tenant may take of the store of all workspaces and of the transfer directory; the rest is for the others. The store enforces it with root.',
          ),
        },
        'Isolated workspaces.',
      ),
      teams: group(
        {
          max_vms_per_team: wholeNumber(20, 1, 1000, 'The largest budget of one team: its members and those below it.'),
          max_nesting_depth: wholeNumber(3, 0, 100, 'How many levels of sub-teams a team may have.'),
          max_total_vms: wholeNumber(100, 0, 100_000, 'Members of all teams on this machine, over all owners.'),
        },
        'Teams of agents, each in a workspace.',
      ),
      models: modelsSection,
      model_proxy: modelProxySection,
      executions: executionsSection,
      workflows: workflowsSection,
      judging: judgingSection,
      commands: commandsSection,
      web: webSection,
      mcp_servers: mcpServersSection,
      search: searchSection,
      security_contexts: securityContextsSection,
      ...webPageFields,
    },
    rule('an object'),
  )
  .describe('Castellan configuration')

type FieldKind = 'string' | 'number' | 'boolean' | 'list' | 'word-or-list'

/** One settable value: its dotted path in the file, its environment variable, and how text becomes its value. */
export type ConfigField = Readonly<{
  path: string
  keys: readonly string[]
  variable: string
  kind: FieldKind
  secret: boolean
  default: unknown
  description: string
  schema: z.ZodType
}>

function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  const definition = (schema as z.core.$ZodTypes)._zod.def
  switch (definition.type) {
    case 'default':
    case 'prefault':
    case 'optional':
      return unwrap(definition.innerType)
    default:
      return schema
  }
}

function kindOf(schema: z.core.$ZodType): FieldKind {
  const { type } = (schema as z.core.$ZodTypes)._zod.def
  switch (type) {
    case 'boolean':
      return 'boolean'
    case 'number':
      return 'number'
    case 'array':
      return 'list'
    case 'union':
      return 'word-or-list'
    default:
      return 'string'
  }
}

function collectFields(schema: z.core.$ZodType, keys: readonly string[], into: ConfigField[]): void {
  const inner = unwrap(schema)
  if (inner instanceof z.ZodObject) {
    for (const [key, member] of Object.entries(inner.shape)) collectFields(member, [...keys, key], into)
    return
  }
  const outer = schema as z.ZodType
  const meta = outer.meta()
  const fallback = outer.safeParse(undefined)
  into.push({
    path: keys.join('.'),
    keys,
    variable: `CASTELLAN_${keys.join('_').toUpperCase()}`,
    kind: kindOf(inner),
    secret: meta?.['writeOnly'] === true,
    default: fallback.data,
    description: outer.description ?? '',
    schema: outer,
  })
}

let fields: readonly ConfigField[] | undefined

/** Every field, in the order of the schema. */
export function configFields(): readonly ConfigField[] {
  if (fields === undefined) {
    const collected: ConfigField[] = []
    collectFields(configSchema, [], collected)
    fields = collected
  }
  return fields
}

/** The names that a group accepts, for a message about one that it does not. `keys` leads to the group. */
export function acceptedKeys(keys: readonly PropertyKey[]): readonly string[] {
  let at: z.core.$ZodType = configSchema
  for (const key of keys) {
    const inner: z.core.$ZodType = unwrap(at)
    const next: z.core.$ZodType | undefined =
      inner instanceof z.ZodObject
        ? inner.shape[key as string]
        : inner instanceof z.ZodArray
          ? inner.element
          : undefined
    if (next === undefined) return []
    at = next
  }
  const inner = unwrap(at)
  return inner instanceof z.ZodObject ? Object.keys(inner.shape) : []
}

/** JSON Schema of the configuration file, for editors and for the reference. */
export function configJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(configSchema, { io: 'input', target: 'draft-2020-12' }) as Record<string, unknown>
  return { ...schema, title: 'Castellan configuration' }
}
