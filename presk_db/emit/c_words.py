"""LIBRARY: identifiers of C's standard library that a function of a program must not define again."""

import itertools

_MATH = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma
fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc cabs carg cimag
conj cproj creal cexp clog cpow csqrt csin ccos ctan csinh ccosh ctanh casin cacos catan casinh cacosh catanh""".split()  # noqa: SIM905 - words

_OTHERS = """abort abs aligned_alloc asctime atexit atof atoi atol atoll bsearch calloc clearerr clock ctime difftime div
exit fclose feof ferror fflush fgetc fgetpos fgets fgetwc fgetws fopen fprintf fputc fputs fputwc fputws fread free
freopen fscanf fseek fsetpos ftell fwide fwprintf fwrite fwscanf getc getchar getenv gets getwc getwchar gmtime isalnum
isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit labs ldiv llabs lldiv localeconv
localtime longjmp malloc mblen mbrlen mbrtowc mbsinit mbsrtowcs mbstowcs mbtowc memchr memcmp memcpy memmove memset mktime
perror printf putc putchar puts putwc putwchar qsort quick_exit raise rand realloc remove rename rewind scanf setbuf
setjmp setlocale setvbuf signal snprintf sprintf srand sscanf strcat strchr strcmp strcoll strcpy strcspn strerror
strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol strtold strtoll strtoul
strtoull strxfrm swprintf swscanf system time timespec_get tmpfile tmpnam tolower toupper towlower towupper ungetc ungetwc
va_arg va_copy va_end va_list va_start vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf wcrtomb wcscat wcschr
wcscmp wcscpy wcslen wcsncat wcstod wcstombs wctomb wmemcpy wprintf wscanf ffs stpcpy strdup strndup bcmp bcopy bzero
index rindex alloca imaxabs imaxdiv strtoimax strtoumax
memory part parts is_ignored is_tied_head load_parts load_tensor""".split()  # noqa: SIM905 - words

LIBRARY: frozenset[str] = frozenset([m + end for m, end in itertools.product(_MATH, ("", "f", "l"))] + _OTHERS)
"""The standard functions that compilers know, with their f and l forms; and what model.c defines itself."""
