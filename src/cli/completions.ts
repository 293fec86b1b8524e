/**
 * What a shell can complete, as data: commands with their flags (`valued` take a value) and words, which may have flags of their
 * own, and the fields of tools.
 */
export type CompletionSource = Readonly<{
  commands: Readonly<
    Record<
      string,
      Readonly<{
        flags: readonly string[]
        words: readonly string[]
        valued?: readonly string[]
        flagsOfWords?: Readonly<Record<string, readonly string[]>>
      }>
    >
  >
  tools: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>
}>

/** Commands whose first word is the name of a tool. */
const takeTool: readonly string[] = ['call', 'tools']

/** The candidates for the last of the words, which may be empty; the words begin after `castellan`. */
export function completions(source: CompletionSource, words: readonly string[]): string[] {
  const last = words.at(-1) ?? ''
  return candidates(source, words.slice(0, -1), last)
    .filter((candidate) => candidate.startsWith(last))
    .sort()
}

function candidates({ commands, tools }: CompletionSource, before: readonly string[], last: string): readonly string[] {
  const [name, ...rest] = before
  if (name === undefined) return [...Object.keys(commands), 'help']
  if (name === 'help') return rest.length === 0 ? Object.keys(commands) : []
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command === undefined) return []
  const { valued = [], flagsOfWords = {} } = command
  const input = rest.filter((word, index) => !word.startsWith('-') && !valued.includes(rest[index - 1] ?? ''))
  if (last.startsWith('-')) {
    const own = Object.hasOwn(flagsOfWords, input[0] ?? '') ? flagsOfWords[input[0]!]! : []
    return [...own, ...command.flags].filter((flag) => !rest.includes(flag))
  }
  if (valued.includes(rest.at(-1) ?? '')) return []
  if (!takeTool.includes(name)) return input.length === 0 ? command.words : []
  const [tool, ...pairs] = input
  if (tool === undefined) return Object.keys(tools)
  if (name !== 'call' || !Object.hasOwn(tools, tool)) return []
  return fieldCandidates(tools[tool]!, pairs, last)
}

/** `key=`, and after the key `key=value` if the values are known. */
function fieldCandidates(
  fields: Readonly<Record<string, readonly string[]>>,
  pairs: readonly string[],
  last: string,
): string[] {
  const split = last.indexOf('=')
  if (split === -1)
    return Object.keys(fields)
      .filter((key) => !pairs.some((pair) => pair.startsWith(`${key}=`)))
      .map((key) => `${key}=`)
  const key = last.slice(0, split)
  return (Object.hasOwn(fields, key) ? fields[key]! : []).map((value) => `${key}=${value}`)
}

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/** The shell asks the program, so the candidates match this version. A key that ends in = is not followed by a space. */
const scripts: Readonly<Record<Shell, string>> = {
  bash: `_castellan() {
  local candidate
  COMP_WORDBREAKS=\${COMP_WORDBREAKS//=/}
  COMPREPLY=()
  while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(
    castellan completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null
  )
  if [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _castellan castellan
`,
  zsh: `_castellan() {
  local -a found
  found=("\${(@f)$(castellan completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -S '' -- \${(M)found:#*=}
  compadd -- \${found:#*=}
}
compdef _castellan castellan
`,
  fish: `function __castellan_complete
    set -l words (commandline -opc) (commandline -ct)
    castellan completion words -- $words[2..-1] 2>/dev/null
end
complete -c castellan -f -a '(__castellan_complete)'
`,
}

export const completionScript = (shell: Shell): string => scripts[shell]
