/**
 * The names under which rules may know a model, in lower case: the whole name, and its parts where a provider adds something to it, as in
 * `openai/NAME`, `models/NAME`, `ft:NAME:owner::id` and `NAME:variant`.
 */
export function namesOfModel(model: string): readonly string[] {
  const whole = model.trim().toLowerCase()
  return SEPARATOR.test(whole) ? [whole, ...whole.split(SEPARATOR).filter((part) => part !== '')] : [whole]
}
const SEPARATOR = /[/:]/
