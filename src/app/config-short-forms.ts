/**
 * Settings whose entries are objects, each with the one line that says the same. A variable of the environment and a flag have
 * nothing but lines; a file that still has them is read, with a warning.
 */
type ShortForm = Readonly<{ form: string; read(text: string): object | undefined }>

/** A pattern whose named groups are the fields; a group that took no part leaves its field out. */
const shortForm = (form: string, pattern: RegExp): ShortForm => ({
  form,
  read(text) {
    const groups = pattern.exec(text)?.groups
    return groups && Object.fromEntries(Object.entries(groups).filter(([, value]) => value !== undefined))
  },
})

const shortForms: ReadonlyMap<string, ShortForm> = new Map([
  [
    'workspaces.mounts',
    shortForm('MODE PATH, perhaps with tenant=NAME', /^(?<mode>ro|rw) (?<path>\/.*?)(?: tenant=(?<tenant>\S+))?$/),
  ],
  ['workspaces.credentials', shortForm('HOST HEADER env:NAME', /^(?<host>\S+) (?<header>\S+) (?<value>env:\S+)$/)],
  ['executions.secrets', shortForm('NAME env:VARIABLE', /^(?<name>\S+) (?<value>env:\S+)$/)],
  ['executions.values', shortForm('NAME=VALUE', /^(?<name>[^=\s]+)=(?<value>.*)$/s)],
  ['workflows.images', shortForm('IMAGE=NAME', /^(?<image>[^=\s]+)=(?<workspace_image>[^=\s]+)$/)],
])

/** The value with objects for its lines, and how the lines are written; a line that is none stays, for the schema to refuse. */
export function withoutShortForms(path: string, value: unknown): Readonly<{ value: unknown; form?: string }> {
  const short = shortForms.get(path)
  if (short === undefined || !Array.isArray(value) || !value.some((entry) => typeof entry === 'string'))
    return { value }
  const read = value.map((entry: unknown) => (typeof entry === 'string' ? (short.read(entry) ?? entry) : entry))
  return { value: read, form: short.form }
}

/** How a line of the field is written; undefined for a field that has none. */
export const shortFormOf = (path: string): string | undefined => shortForms.get(path)?.form
