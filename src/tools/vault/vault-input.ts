import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { anyJson, params } from '../params.ts'

const path = (text: string) => z.string().max(limits.vaultPathCharsMax).describe(text)
const oneOf = ['string', 'number', 'boolean', 'null'].map((type) => ({ type }))
const openObject = { type: 'object', additionalProperties: true }
/** Any JSON value, described without recursion: nested lists are accepted too. */
const value = anyJson.meta({
  anyOf: [...oneOf, openObject, { type: 'array', items: { anyOf: [...oneOf, openObject] } }],
})
const flag = (text: string) => z.boolean().optional().describe(text)
const text = (description: string) => z.string().max(limits.vaultTextCharsMax).optional().describe(description)

/** The parameters of all actions. The service checks which of them an action takes. */
export const vaultInput = z.strictObject({
  action: params.vaultAction.describe('What to do; each action takes the parameters that name it.'),
  path: path(
    'Path in the vault, such as "projects/plan.md". For all but search, batch_read and stats; list: a folder.',
  ).optional(),
  format: z
    .enum(['markdown', 'json'])
    .optional()
    .describe('read: "json" also gives the body without front matter, and the tags. Default "markdown".'),
  content: text(
    'write: the text, at most 3.5 MiB in one call; a note may have 10 MiB, so write the rest with mode "append".',
  ),
  mode: z
    .enum(['overwrite', 'append', 'prepend'])
    .optional()
    .describe('write: "prepend" puts the text after the front matter. Default "overwrite".'),
  query: z
    .string()
    .max(limits.vaultPatternCharsMax)
    .optional()
    .describe('search: what a line must contain; capitals count.'),
  regex: flag('search, replace: the query, or old_string, is an RE2 regular expression. Default false.'),
  path_prefix: path('search: only notes whose path begins so.').optional(),
  tag: z.string().max(256).optional().describe('search: only notes with this tag. tags: the one to add or remove.'),
  max_results: z
    .int()
    .min(0)
    .max(limits.vaultSearchResultsMax)
    .optional()
    .describe('search: how many lines at most; 0 for as many as are allowed. Default 20.'),
  recursive: flag('list: also what is in the folders below. Default false.'),
  confirm: flag('delete: must be true.'),
  frontmatter_action: z.enum(['get', 'set', 'delete']).optional().describe('frontmatter: what to do with it.'),
  key: z.string().max(256).optional().describe('frontmatter: the field to set or delete, or the only one to get.'),
  value: value
    .refine(
      (value) => JSON.stringify(value).length <= limits.metadataBytesMax,
      `must be at most ${limits.metadataBytesMax} bytes as JSON`,
    )
    .optional()
    .describe('frontmatter set: any JSON value.'),
  tags_action: z.enum(['list', 'add', 'remove']).optional().describe('tags: what to do with them.'),
  old_string: text('replace: every occurrence of it is replaced.'),
  new_string: text('replace: what comes instead; with regex, $1 is a group, $0 the match and $$ a dollar sign.'),
  new_path: path('move: where the note goes; missing folders are made.').optional(),
  overwrite: flag('move: replace a note that is there already. Default false.'),
  paths: z
    .array(z.string().max(limits.vaultPathCharsMax))
    .min(1)
    .max(limits.vaultBatchMax)
    .optional()
    .describe('batch_read: the notes to read.'),
  include_content: flag('batch_read: give the text. Default true.'),
  include_frontmatter: flag('batch_read: give the front matter. Default true.'),
  recent_count: z
    .int()
    .min(0)
    .max(limits.vaultRecentMax)
    .optional()
    .describe('stats: how many of the last modified notes to name. Default 10.'),
})
