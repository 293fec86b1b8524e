import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { FoundLine } from './find-lines.ts'
import type { Fields } from './frontmatter.ts'

export const vaultActions = [
  'read',
  'write',
  'search',
  'list',
  'delete',
  'frontmatter',
  'tags',
  'replace',
  'move',
  'batch_read',
  'stats',
] as const
export type VaultAction = (typeof vaultActions)[number]

/** Every parameter of every action, under the name that callers use. */
export type VaultParameters = Readonly<{
  path: string
  format: 'markdown' | 'json'
  content: string
  mode: 'overwrite' | 'append' | 'prepend'
  query: string
  regex: boolean
  path_prefix: string
  tag: string
  max_results: number
  recursive: boolean
  confirm: boolean
  frontmatter_action: 'get' | 'set' | 'delete'
  key: string
  value: Json
  tags_action: 'list' | 'add' | 'remove'
  old_string: string
  new_string: string
  new_path: string
  overwrite: boolean
  paths: readonly string[]
  include_content: boolean
  include_frontmatter: boolean
  recent_count: number
}>
type Name = keyof VaultParameters

export type VaultRequest = Readonly<{ action: VaultAction }> & { readonly [N in Name]?: VaultParameters[N] | undefined }

/** The fields of answers, as callers see them; each action fills in its own. */
export type VaultAnswer = Partial<
  Readonly<{
    path: string
    content: string
    frontmatter: Fields | null
    frontmatter_error: string | null
    body: string
    tags: readonly string[]
    mode: VaultParameters['mode']
    created: boolean
    size_bytes: number
    query: string
    result_count: number
    results: readonly (FoundLine & Readonly<{ path: string }>)[]
    truncated: boolean
    recursive: boolean
    count: number
    entries: readonly Readonly<{ path: string; is_dir: boolean; size: number | null }>[]
    deleted: boolean
    key: string
    changed: boolean
    replacements: number
    moved: boolean
    from: string
    to: string
    overwritten: boolean
    notes: readonly BatchNote[]
    total_notes: number
    total_folders: number
    total_size_bytes: number
    recent_files: readonly Readonly<{ path: string; size_bytes: number; modified: string }>[]
  }>
>
export type BatchNote = Readonly<{
  path: string
  content: string | null
  frontmatter: Fields | null
  error: Readonly<{ code: string; message: string }> | null
}>

type Input<Required extends Name, Optional extends Name> = { readonly [N in Required]: VaultParameters[N] } & {
  readonly [N in Optional]?: VaultParameters[N] | undefined
}

/** An action: its required and optional parameters, and its implementation. */
export type ActionSpec = Readonly<{
  required: readonly Name[]
  optional: readonly Name[]
  run(call: Call, input: VaultRequest): Promise<VaultAnswer>
}>

/** Carries the types: `run` sees exactly the parameters that are named. */
export const action = <const R extends Name = never, const O extends Name = never>(
  required: readonly R[],
  optional: readonly O[],
  run: (call: Call, input: Input<R, O>) => Promise<VaultAnswer>,
): ActionSpec => ({ required, optional, run: run as never })

/** Refuses missing parameters, and those of another action, which would be ignored. */
export function requireParameters(spec: ActionSpec, input: VaultRequest): void {
  const accepted: readonly string[] = [...spec.required, ...spec.optional]
  for (const name of spec.required) {
    if (input[name] === undefined) {
      throw refused(name, `Required field '${name}' is missing for the action '${input.action}'.`, 'required', accepted)
    }
  }
  for (const [name, value] of Object.entries(input)) {
    // Some clients send every field, with null for an omitted one.
    if (name === 'action' || value === undefined || value === null || accepted.includes(name)) continue
    const acceptedText = accepted.length === 0 ? 'it takes no other field' : `it takes ${accepted.join(', ')}`
    throw refused(
      name,
      `Field '${name}' does not belong to the action '${input.action}' (${acceptedText}).`,
      'other action',
      accepted,
    )
  }
}

const refused = (field: string, message: string, constraint: string, accepted: readonly string[]): AppError =>
  new AppError('ERR_INVALID_INPUT', message, { field, constraint, accepted })
