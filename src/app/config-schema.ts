import { z } from 'zod'
import { zaruModes } from '../tools/runtime/zaru-modes.ts'
import { executionsSection, judgingSection, modelsSection, workflowsSection } from './config-executions.ts'
import { approvalsSection, limitsSection, sanitiserSection } from './config-governance.ts'
import { interactionsSection } from './config-interactions.ts'
import { listeningFields, webPageFields } from './config-listening.ts'
import { modelProxySection } from './config-model-proxy.ts'
import { bucket, flag, group, listOf, objectsWith, rule, secret, wholeNumber } from './config-parts.ts'
import { peopleFields } from './config-people.ts'
import { searchSection } from './config-search.ts'
import { hasShortForm } from './config-short-forms.ts'
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

const dnsServerRule = rule('an IPv4 address that is not a loopback address')
const portRangeRule = rule('an object with from and to: two ports from 1024 to 65535, the smaller first')
const rangePort = z.int(portRangeRule).min(1024, portRangeRule).max(65_535, portRangeRule)
const mountRules = objectsWith('mode (ro or rw), path (absolute) and, optionally, tenant')
const mountPathRule = rule('an absolute path')
const mountTenantRule = rule('the id of a tenant')
const credentialRules = objectsWith('host, header and value (env:NAME)')
const credentialHostRule = rule('the name or the address of a host')
const credentialHeaderRule = rule('the name of a header')
const credentialValueRule = rule('env:NAME')
const secretKeyRule = rule('a key, env:NAME, or a list of these')
const secretKey = z.string(secretKeyRule).min(1, secretKeyRule)
const databaseUrlRule = rule('a postgres:// or postgresql:// URL, or env:NAME')

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
        .union([secretKey, z.array(secretKey, secretKeyRule).min(1, secretKeyRule)], secretKeyRule)
        .optional()
        .meta(secret)
        .describe(
          'Key that secrets are encrypted with: 32 bytes in base64 or hexadecimal. Default: a key in the data directory. In a list of keys, the first one encrypts; `castellan secrets rotate` encrypts everything again with it. Accepts `env:NAME`.',
        ),
      mode: z
        .enum(modes, rule(`one of ${modes.join(', ')}`))
        .default('FULL')
        .describe(
          'FULL: all tools. READONLY: only tools that read. TEST: all tools, on a separate test store. MINIMAL: only server_ping and server_health.',
        ),
      tools: z
        .union(
          [z.enum(['default', 'full']), z.array(z.string().min(1)).min(1)],
          rule('"default", "full", or a list of toolset and tool names'),
        )
        .default('default')
        .describe(
          '`default` lists a curated set with search_tools and run_tool, `full` lists every tool, and a list of names lists those toolsets and tools.',
        ),
      zaru_mode: z
        .enum(zaruModes, rule(`one of ${zaruModes.join(', ')}`))
        .optional()
        .describe(
          'Conversation mode of connections that choose none. Only the tools of the mode are listed and can be called. Over HTTP, the address chooses with `?mode=`.',
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
        'Token buckets for each principal and category. Calls that the platform makes for a run are not counted.',
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
            .enum(['batched', 'batched_own', 'strict'], rule('one of batched, batched_own, strict'))
            .default('batched')
            .describe(
              '`batched` answers a read-only call before its record is on disk, also a call of a tool that its MCP server declares read-only; `batched_own` only if the tool is of this server; `strict` waits for every record.',
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
              'Directories whose `.agents/skills/*/SKILL.md` are offered. Default: the working directory and the data directory.',
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
            .describe('Image of a workspace that names none. `host` is the programs of this machine, read-only.'),
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
            'Number of workspaces on this machine, over all owners. A tenth of them, at least one, is reserved for the local owner.',
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
                  mode: z.enum(['ro', 'rw'], rule('ro or rw')),
                  path: z.string(mountPathRule).regex(/^\/[^\n\0]*$/, mountPathRule),
                  tenant: z
                    .string(mountTenantRule)
                    .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, mountTenantRule)
                    .optional(),
                },
                mountRules.entry,
              ),
              mountRules.list,
            )
            .max(32, rule('a list of at most 32 folders'))
            .default([])
            .describe(
              'Folders of this machine that workspace_create may mount, they and what is below them. Each: `path`, `mode` (`ro` for reading, `rw` also for writing), and `tenant` if it is for all callers of a tenant; without that it is for the person at this machine alone.',
            ),
          credentials: z
            .array(
              z.strictObject(
                {
                  host: z.string(credentialHostRule).regex(/^[A-Za-z0-9.:-]+$/, credentialHostRule),
                  header: z.string(credentialHeaderRule).regex(/^[A-Za-z0-9-]+$/, credentialHeaderRule),
                  value: z.string(credentialValueRule).regex(/^env:[A-Za-z_][A-Za-z0-9_]*$/, credentialValueRule),
                },
                credentialRules.entry,
              ),
              credentialRules.list,
            )
            .max(100, rule('a list of at most 100 headers'))
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
            .strictObject(
              { from: rangePort.describe('First port.'), to: rangePort.describe('Last port.') },
              portRangeRule,
            )
            .refine(({ from, to }) => from <= to, portRangeRule)
            .default({ from: 20_000, to: 31_999 })
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

/** One setting: its dotted path in the file, its environment variable, and how text becomes its value. */
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
  if (inner instanceof z.ZodObject && !hasShortForm(keys.join('.'))) {
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

/** The accepted names of a group, for a message about an unknown one. `keys` leads to the group. */
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
