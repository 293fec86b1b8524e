/** What programs of the intent pipeline are written in. */
export const intentLanguages = ['python', 'javascript', 'bash'] as const
export type IntentLanguage = (typeof intentLanguages)[number]
