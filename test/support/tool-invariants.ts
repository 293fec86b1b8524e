import { allRulesOf } from '../../src/tools/runtime/call-rules.ts'
import type { CatalogTool } from '../../src/tools/runtime/catalog.ts'
import type { CallRules, Effect } from '../../src/tools/runtime/define-tool.ts'
import { isGoverning, notGoverning } from './governing-tools.ts'

/**
 * What must hold for every tool, as checks over its definition. Each answers with what is wrong, in words for the author
 * of the tool; nothing when all is well. Lists here are written out on purpose: an addition is a decision to review.
 */
export type ToolCheck = (tool: CatalogTool, all: ReadonlySet<string>) => readonly string[]

/** These answer anybody who may connect; what they do for a caller is limited by the tools they lead to. */
const needNoPermission: readonly string[] = [
  'search_tools',
  'run_tool',
  'zaru.switch_mode',
  'secret_link_submit',
  // Everyone has their own sessions; those of others need a permission, which the service checks.
  'user_session_list',
  'user_session_revoke',
  'finish_mcp_authorization',
  'invitation_accept',
  'whoami',
]

/** These answer when nothing else works, so they may use no store. */
const answerWithoutStore: readonly string[] = ['server_ping', 'server_health']

/** These keep arguments and answers in the log, where nothing can ever be erased. */
const logTheirContent: readonly string[] = []

/** These change something and are still not judged: the registry checks what they are given, and a judge takes it for calls. */
const registryWrites: readonly string[] = [
  'aegis.agent.create',
  'aegis.agent.update',
  'aegis.agent.delete',
  'aegis.workflow.create',
  'aegis.workflow.update',
  'aegis.workflow.cancel',
  'aegis.workflow.signal',
  'aegis.workflow.remove',
]

/** Parameters whose JSON Schema has alternatives, which some clients flatten or refuse; nested only, never at the root. */
const parametersWithAlternatives: readonly string[] = [
  'create_limit.model',
  'vault.value',
  'exec_parallel.commands',
  'edit_mcp_description.description',
  'edit_mcp_description.icon',
  'edit_mcp_description.docsUrl',
  'edit_mcp_description.repository',
  'edit_mcp_description.version',
  'edit_mcp_description.instructions',
  'edit_mcp_config.serverUrl',
  'deploy_mcp_server.values',
  'install_mcp_server.values',
  'edit_mcp_config.authDescription',
  'create_mcp_server.description',
  'create_mcp_server.icon',
  'create_mcp_server.docsUrl',
  'create_mcp_server.repository',
  'create_mcp_server.version',
  'create_mcp_server.instructions',
  'create_mcp_server.environmentId',
  'create_mcp_server.serverUrl',
  'create_mcp_server.authDescription',
  'create_agent.description',
  'create_agent.icon',
  'create_agent.systemPrompt',
  'create_agent.toolAssignments',
  'edit_agent.description',
  'edit_agent.icon',
  'edit_agent.systemPrompt',
  'edit_agent.toolAssignments',
  'bulk_assign_tools_to_agents.assignments',
  'bulk_assign_tools_to_mcp_gateways.assignments',
  'update_tool_invocation_policy.reason',
  'update_trusted_data_policy.description',
  'create_mcp_gateway.description',
  'create_mcp_gateway.icon',
  'edit_mcp_gateway.description',
  'edit_mcp_gateway.icon',
  'create_llm_proxy.description',
  'create_llm_proxy.icon',
  'edit_llm_proxy.description',
  'edit_llm_proxy.icon',
]

const effectsOfAction: Readonly<Record<string, readonly Effect[]>> = {
  read: ['read'],
  create: ['create', 'external'],
  update: ['update', 'external'],
  delete: ['delete', 'external'],
  // What only looks may still have to run a program of the workspace.
  exec: ['external', 'read'],
  finalize: ['update'],
  execute: ['create'],
  cancel: ['update'],
  run: ['create'],
  signal: ['update'],
  promote: ['update'],
  recover: ['external'],
  admin: ['update'],
}

const DESCRIPTION_CHARACTERS = { min: 20, max: 400 } as const
const TITLE_CHARACTERS_MAX = 40
const NAME_CHARACTERS_MAX = 64

type Schema = Readonly<Record<string, unknown>>
const alternatives = ['anyOf', 'oneOf', 'allOf', 'not', 'if'] as const

const parametersOf = (tool: CatalogTool): [string, Schema][] =>
  Object.entries((tool.listed.inputSchema['properties'] ?? {}) as Record<string, Schema>)

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null

/** The schema and every schema inside it, with the way there. */
function* everySchema(schema: Schema, path: string): Generator<[string, Schema]> {
  yield [path, schema]
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'enum' || key === 'default' || key === 'examples') continue
    for (const item of Array.isArray(value) ? value : [value]) {
      if (isSchema(item)) yield* everySchema(item, key === 'properties' ? path : `${path}.${key}`)
    }
  }
}

const hasAlternatives = (schema: Schema): boolean =>
  [...everySchema(schema, '')].some(
    ([, part]) => alternatives.some((word) => word in part) || Array.isArray(part['type']) || '$ref' in part,
  )

const name: ToolCheck = ({ name, safeName }) => [
  ...(/^[a-z][a-z0-9]*([_.][a-z0-9]+)*$/.test(name) ? [] : ['its name must be words in lower case, joined by _ or .']),
  ...(name.length <= NAME_CHARACTERS_MAX ? [] : [`its name must have at most ${NAME_CHARACTERS_MAX} characters`]),
  ...(/^[a-z0-9_]+$/.test(safeName) ? [] : [`its safe name '${safeName}' must have only a-z, 0-9 and _`]),
]

const title: ToolCheck = ({ definition }) =>
  definition.title.length <= TITLE_CHARACTERS_MAX && /^[A-Z][^.]*$/.test(definition.title)
    ? []
    : [`its title must begin with a capital, have no full stop and at most ${TITLE_CHARACTERS_MAX} characters`]

const description: ToolCheck = ({ definition }) => {
  const { length } = definition.description
  const { min, max } = DESCRIPTION_CHARACTERS
  return [
    ...(length >= min && length <= max ? [] : [`its description has ${length} characters; ${min} to ${max}`]),
    ...(/[.`]$/.test(definition.description) ? [] : ['its description must end with a full stop']),
  ]
}

/** A word like `task_list` in a description is a promise that there is such a thing; an example shows one too. */
const mentions: ToolCheck = (tool, all) => {
  const parameters = new Set([...everySchema(tool.listed.inputSchema, '')].flatMap(([, part]) => namesIn(part)))
  const answers = new Set([...everySchema(tool.listed.outputSchema ?? {}, '')].flatMap(([, part]) => namesIn(part)))
  const texts = [tool.definition.description, ...parametersOf(tool).map(([, schema]) => schema['description'] ?? '')]
  return texts
    .flatMap((text) => String(text).match(MENTIONED) ?? [])
    .filter((word) => !all.has(word) && !parameters.has(word) && !answers.has(word))
    .map((word) => `it mentions ${word}, which is no tool, parameter, value or field of the answer`)
}
/** Words joined by `_`, with those before that dots join them to; and names of the families whose words dots alone join. */
const MENTIONED = /\b(?:(?:[a-z]+\.)*[a-z]+(?:_[a-z]+)+|(?:aegis|cmd|fs|web|zaru)(?:\.[a-z]+)+)\b/g
const namesIn = (schema: Schema): string[] => [
  ...Object.keys((schema['properties'] ?? {}) as object),
  ...((schema['enum'] ?? []) as unknown[]).map(String),
  ...((schema['examples'] ?? []) as unknown[]).flatMap((example) => String(example).match(/[a-z]+(?:_[a-z]+)*/g) ?? []),
]

const annotations: ToolCheck = ({ definition, listed }) => {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = listed.annotations
  const complete = [readOnlyHint, destructiveHint, idempotentHint, openWorldHint].every(
    (hint) => typeof hint === 'boolean',
  )
  return [
    ...(complete && listed.annotations.title === definition.title ? [] : ['its MCP hints must be complete']),
    ...(readOnlyHint && destructiveHint ? ['its MCP hints say that it only reads and that it destroys'] : []),
    ...(readOnlyHint && !definition.idempotent ? ['it only reads, so it must say that it is idempotent'] : []),
  ]
}

const permission: ToolCheck = ({ name, definition }) =>
  allRulesOf(definition).flatMap((rules) => permissionFaults(name, rules))

function permissionFaults(name: string, rules: CallRules): readonly string[] {
  if (rules.permission === null) {
    return needNoPermission.includes(name) ? [] : ['it needs no permission, but is not on the written-out list']
  }
  const action = rules.permission.split(':')[1] ?? ''
  const allowed = effectsOfAction[action]
  if (allowed === undefined) return [`the action '${action}' of its permission has no effect in effectsOfAction`]
  if (allowed.includes(rules.effect)) return []
  return [`its effect is '${rules.effect}', but the permission ${rules.permission} is for ${allowed.join(', ')}`]
}

/** Who has read untrusted data changes no rule, right or credential, and nothing that decides what is spent. */
const governs: ToolCheck = ({ name, definition }) => {
  const isMarked = definition.trust?.governs === true
  if (isMarked && Object.hasOwn(notGoverning, name)) return ['it governs, and is on the list of tools that do not']
  const shouldBe = allRulesOf(definition).some(isGoverning) && !Object.hasOwn(notGoverning, name)
  return shouldBe && !isMarked
    ? ['its permission governs: it needs trust: { governs: true }, or a reason in notGoverning']
    : []
}

/** An edit that names nothing to change is a mistake of its caller, such as a forgotten field. */
const changes: ToolCheck = ({ name, definition, listed }) => {
  const { properties = {}, required = [] } = listed.inputSchema as Readonly<{
    properties?: object
    required?: string[]
  }>
  const optional = Object.keys(properties).filter((field) => !required.includes(field))
  const isEdit = /^(?:edit|update)_|_(?:edit|update)$/.test(name) && optional.length > 0
  return isEdit && definition.needsChange !== true ? ['it edits: it needs needsChange: true'] : []
}

/** Rules for an action that does not exist would never hold, and the hints of MCP are made for the worst of them. */
const actions: ToolCheck = ({ definition, listed }) => {
  if (definition.actions === undefined) return []
  const parameters = (listed.inputSchema['properties'] ?? {}) as Record<string, Schema>
  const known = (parameters['action']?.['enum'] ?? []) as unknown[]
  const required = (listed.inputSchema['required'] ?? []) as unknown[]
  return [
    ...(required.includes('action') ? [] : ['it has rules for actions, but its parameter action is not required']),
    ...Object.keys(definition.actions)
      .filter((action) => !known.includes(action))
      .map((action) => `it has rules for ${action}, which is no value of its parameter action`),
    ...(definition.effect === 'external' ? [] : ['a tool with rules for actions must be external as a whole']),
  ]
}

const judge: ToolCheck = ({ name, definition }) =>
  definition.skipJudge && definition.effect !== 'read' && !registryWrites.includes(name)
    ? ['only a tool that reads, or one on the written-out list, may skip the judge']
    : []

const audit: ToolCheck = ({ name, definition }) =>
  (definition.audit === 'content') === logTheirContent.includes(name)
    ? []
    : ['whether it keeps content in the log must agree with the written-out list']

const minimal: ToolCheck = ({ name, definition }) =>
  (definition.minimal === true) === answerWithoutStore.includes(name)
    ? []
    : ['whether it answers in mode MINIMAL must agree with the written-out list']

const output: ToolCheck = ({ definition, listed }) =>
  (definition.redirects !== true) === (listed.outputSchema !== undefined)
    ? []
    : ['it must declare its output, unless it hands its call on']

const inputShape: ToolCheck = ({ listed }) => [
  ...(listed.inputSchema['additionalProperties'] === false ? [] : ['its input must be a strict object']),
  ...alternatives.filter((word) => word in listed.inputSchema).map((word) => `its input has ${word} at the root`),
]

/** Clients that rewrite schemas lose the definitions and keep the references. */
const references: ToolCheck = ({ listed }) =>
  /"\$(ref|defs)":/.test(JSON.stringify([listed.inputSchema, listed.outputSchema]))
    ? ['its schemas must say everything in place; a recursive part is open']
    : []

const nestedAlternatives: ToolCheck = (tool) =>
  parametersOf(tool)
    .filter(([key, schema]) => hasAlternatives(schema) !== parametersWithAlternatives.includes(`${tool.name}.${key}`))
    .map(([key]) => `${key}: alternatives in its schema must agree with the written-out list`)

/** An enumeration whose values are plain words explains itself; everything else says what it is for. */
const parameterText: ToolCheck = (tool) =>
  parametersOf(tool).flatMap(([key, schema]) => {
    if (schema['description'] === undefined) return 'enum' in schema ? [] : [`${key} needs a description`]
    return String(schema['description']).length <= 200
      ? []
      : [`the description of ${key} is longer than 200 characters`]
  })

/** Tools whose document writes its parameters in camelCase. */
const writtenInCamelCase: readonly string[] = [
  'create_tool_invocation_policy',
  'update_tool_invocation_policy',
  'create_trusted_data_policy',
  'update_trusted_data_policy',
  'authorize_mcp_server',
  'create_mcp_server_installation_request',
  'create_agent',
  'edit_agent',
  'create_mcp_server',
  'deploy_mcp_server',
  'install_mcp_server',
  'delete_mcp_server_deployment',
  'edit_mcp_config',
  'edit_mcp_description',
  'get_mcp_server_logs',
  'get_mcp_server_tools',
  'create_mcp_gateway',
  'edit_mcp_gateway',
  'unassign_tools_from_mcp_gateway',
  'create_llm_proxy',
  'edit_llm_proxy',
]

const parameterName: ToolCheck = (tool) =>
  parametersOf(tool)
    .filter(([key]) => !/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(key))
    .filter(([key]) => !(writtenInCamelCase.includes(tool.name) && /^[a-z][A-Za-z0-9]*$/.test(key)))
    .map(([key]) => `${key} must be in snake_case`)

/** A limit on everything that a caller can send. */
const parameterBounds: ToolCheck = (tool) =>
  parametersOf(tool)
    .filter(([key]) => !parametersWithAlternatives.includes(`${tool.name}.${key}`))
    .flatMap(([key, parameter]) => [...everySchema(parameter, key)])
    .filter(([, schema]) => !isBounded(schema))
    .map(([path, schema]) => `${path} (${String(schema['type'])}) has no upper bound`)

function isBounded(schema: Schema): boolean {
  if ('enum' in schema || 'const' in schema) return true
  switch (schema['type']) {
    case 'string':
      return 'maxLength' in schema || /\{\d*,?\d+\}\$$/.test(String(schema['pattern'] ?? ''))
    case 'array':
      return 'maxItems' in schema
    case 'number':
    case 'integer':
      return 'minimum' in schema && 'maximum' in schema
    default:
      return true
  }
}

export const toolChecks: Readonly<Record<string, ToolCheck>> = {
  name,
  title,
  description,
  mentions,
  annotations,
  permission,
  governs,
  changes,
  actions,
  judge,
  audit,
  minimal,
  output,
  inputShape,
  references,
  nestedAlternatives,
  parameterText,
  parameterName,
  parameterBounds,
}

/** The written-out lists, so that a test can ask whether what they name still exists. */
export const writtenOutNames: readonly string[] = [
  ...Object.keys(notGoverning),
  ...needNoPermission,
  ...answerWithoutStore,
  ...logTheirContent,
  ...registryWrites,
  ...writtenInCamelCase,
  ...parametersWithAlternatives.map((path) => path.split('.').slice(0, -1).join('.')),
]
