import { z } from 'zod'
import { fields } from '../params.ts'

const frontmatter = z.record(z.string(), z.unknown()).nullable()
const flag = z.boolean().optional()
const count = z.int().optional()

/** The fields of all actions. Each action returns its own subset. */
export const vaultOutput = z.strictObject({
  action: z.string().describe('The action that was done.'),
  path: z.string().optional(),
  content: z.string().optional().describe('read: the whole note, front matter included.'),
  frontmatter: frontmatter.optional().describe('As data; null when there is none, or none that can be read.'),
  frontmatter_error: z.string().nullable().optional().describe('Why the front matter cannot be read.'),
  body: z.string().optional().describe('read: the note without front matter.'),
  tags: z.array(z.string()).optional().describe('Of the front matter and of the text, without "#".'),
  mode: z.enum(['overwrite', 'append', 'prepend']).optional(),
  created: flag.describe('write: whether the note is new.'),
  size_bytes: count.describe('write: of the whole note.'),
  query: z.string().optional(),
  result_count: count,
  results: z
    .array(
      z.strictObject({
        path: z.string(),
        line_number: z.int().describe('From 1.'),
        line: z.string(),
        context: z.string().describe('The line with two before and two after it.'),
      }),
    )
    .optional(),
  truncated: flag.describe('Whether there is more than was given or looked at.'),
  recursive: flag,
  count,
  entries: z
    .array(z.strictObject({ path: z.string(), is_dir: z.boolean(), size: z.int().nullable() }))
    .optional()
    .describe('list: by path.'),
  deleted: flag,
  key: z.string().optional(),
  changed: flag.describe('Whether the note is another now.'),
  replacements: count,
  moved: flag,
  from: z.string().optional(),
  to: z.string().optional(),
  overwritten: flag.describe('move: whether a note was replaced.'),
  notes: z
    .array(
      z.strictObject({
        path: z.string(),
        content: z.string().nullable(),
        frontmatter,
        error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
      }),
    )
    .optional()
    .describe('batch_read: one for each path, in their order.'),
  total_notes: count,
  total_folders: count,
  total_size_bytes: count,
  recent_files: z
    .array(z.strictObject({ path: z.string(), size_bytes: z.int(), modified: fields.time }))
    .optional()
    .describe('stats: newest first.'),
})
