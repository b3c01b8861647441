/** Why a repository's settings for pi keep it from being started there; undefined where they do not. */
export function refusalOfSettings(cwd: string): string | undefined;
/** The same for its extensions. */
export function refusalOfExtensions(cwd: string): string | undefined;
