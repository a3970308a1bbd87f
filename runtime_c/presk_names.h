/* presk_names.h: gives every external symbol of the runtime a prefix, so that two programs link into one executable.
 *
 * C11 has no weak symbols and no name spaces. A program that is to be linked beside another one is compiled with
 *
 *     -DPRESK_PREFIX=gpt_            (the program's own prefix, a C identifier, the same for all of its files)
 *
 * and then `presk_file_open` is the symbol `gpt_presk_file_open` while the source still reads `presk_file_open`.
 * Without PRESK_PREFIX nothing changes. Types, macros and static functions have no linkage and need no entry here.
 * Every runtime header includes this file first; a test compares this list with the symbols of the object files.
 */
#ifndef PRESK_NAMES_H
#define PRESK_NAMES_H

#ifdef PRESK_PREFIX

#define PRESK_PASTE_(prefix, name) prefix##name
#define PRESK_PASTE(prefix, name) PRESK_PASTE_(prefix, name)
#define PRESK_SYM(name) PRESK_PASTE(PRESK_PREFIX, name)

/* presk_rt.c */
#define presk_alloc PRESK_SYM(presk_alloc)
#define presk_canonical_bf16 PRESK_SYM(presk_canonical_bf16)
#define presk_canonical_f32 PRESK_SYM(presk_canonical_f32)
#define presk_canonical_f64 PRESK_SYM(presk_canonical_f64)
#define presk_error_print PRESK_SYM(presk_error_print)
#define presk_error_set PRESK_SYM(presk_error_set)
#define presk_free PRESK_SYM(presk_free)
#define presk_rt_probe PRESK_SYM(presk_rt_probe)

/* presk_hash.c */
#define presk_hash_begin PRESK_SYM(presk_hash_begin)
#define presk_hash_close PRESK_SYM(presk_hash_close)
#define presk_hash_launch PRESK_SYM(presk_hash_launch)
#define presk_hash_open PRESK_SYM(presk_hash_open)
#define presk_hash_output PRESK_SYM(presk_hash_output)
#define presk_hash_write PRESK_SYM(presk_hash_write)

/* presk_profile.c */
#define presk_profile_begin PRESK_SYM(presk_profile_begin)
#define presk_profile_end PRESK_SYM(presk_profile_end)
#define presk_profile_reset PRESK_SYM(presk_profile_reset)
#define presk_profile_save PRESK_SYM(presk_profile_save)

/* presk_trace.c */
#define presk_trace_begin PRESK_SYM(presk_trace_begin)
#define presk_trace_peak PRESK_SYM(presk_trace_peak)
#define presk_trace_write PRESK_SYM(presk_trace_write)

/* presk_watch.c */
#define presk_find_nan PRESK_SYM(presk_find_nan)
#define presk_watch PRESK_SYM(presk_watch)
#define presk_watch_launch PRESK_SYM(presk_watch_launch)
#define presk_watch_write PRESK_SYM(presk_watch_write)
#define presk_watching PRESK_SYM(presk_watching)

/* presk_json.c */
#define presk_json_at_end PRESK_SYM(presk_json_at_end)
#define presk_json_natural PRESK_SYM(presk_json_natural)
#define presk_json_string PRESK_SYM(presk_json_string)
#define presk_json_take PRESK_SYM(presk_json_take)
#define presk_json_want PRESK_SYM(presk_json_want)
#define presk_utf8_size PRESK_SYM(presk_utf8_size)

/* presk_header.c */
#define presk_dtype_name PRESK_SYM(presk_dtype_name)
#define presk_dtype_size PRESK_SYM(presk_dtype_size)
#define presk_header_bind PRESK_SYM(presk_header_bind)
#define presk_header_extent PRESK_SYM(presk_header_extent)
#define presk_header_free PRESK_SYM(presk_header_free)
#define presk_header_parse PRESK_SYM(presk_header_parse)

/* presk_tensors.c */
#define presk_file_at PRESK_SYM(presk_file_at)
#define presk_file_close PRESK_SYM(presk_file_close)
#define presk_file_count PRESK_SYM(presk_file_count)
#define presk_file_expect PRESK_SYM(presk_file_expect)
#define presk_file_expect_no_more PRESK_SYM(presk_file_expect_no_more)
#define presk_file_find PRESK_SYM(presk_file_find)
#define presk_file_open PRESK_SYM(presk_file_open)

/* presk_convert.c */
#define presk_check_range PRESK_SYM(presk_check_range)
#define presk_read PRESK_SYM(presk_read)
#define presk_read_bf16 PRESK_SYM(presk_read_bf16)
#define presk_read_f32 PRESK_SYM(presk_read_f32)
#define presk_read_f64 PRESK_SYM(presk_read_f64)
#define presk_read_i64 PRESK_SYM(presk_read_i64)
#define presk_read_transposed PRESK_SYM(presk_read_transposed)

/* presk_math.c, presk_math_reduce.c, presk_math_slow.c */
#define presk_cos_f32_far PRESK_SYM(presk_cos_f32_far)
#define presk_cos_f64 PRESK_SYM(presk_cos_f64)
#define presk_cos_slow PRESK_SYM(presk_cos_slow)
#define presk_erf_f64 PRESK_SYM(presk_erf_f64)
#define presk_erf_slow PRESK_SYM(presk_erf_slow)
#define presk_exp_f64 PRESK_SYM(presk_exp_f64)
#define presk_exp_slow PRESK_SYM(presk_exp_slow)
#define presk_expm1_f64 PRESK_SYM(presk_expm1_f64)
#define presk_expm1_slow PRESK_SYM(presk_expm1_slow)
#define presk_gelu_f64 PRESK_SYM(presk_gelu_f64)
#define presk_gelu_slow PRESK_SYM(presk_gelu_slow)
#define presk_half_up PRESK_SYM(presk_half_up)
#define presk_log1p_f64 PRESK_SYM(presk_log1p_f64)
#define presk_log1p_slow PRESK_SYM(presk_log1p_slow)
#define presk_log_f64 PRESK_SYM(presk_log_f64)
#define presk_log_slow PRESK_SYM(presk_log_slow)
#define presk_reduce PRESK_SYM(presk_reduce)
#define presk_sigmoid_f64 PRESK_SYM(presk_sigmoid_f64)
#define presk_sigmoid_slow PRESK_SYM(presk_sigmoid_slow)
#define presk_silu_f64 PRESK_SYM(presk_silu_f64)
#define presk_silu_slow PRESK_SYM(presk_silu_slow)
#define presk_sin_f32_far PRESK_SYM(presk_sin_f32_far)
#define presk_sin_f64 PRESK_SYM(presk_sin_f64)
#define presk_sin_slow PRESK_SYM(presk_sin_slow)
#define presk_tanh_f64 PRESK_SYM(presk_tanh_f64)
#define presk_tanh_slow PRESK_SYM(presk_tanh_slow)

/* presk_key.c */
#define presk_key_block PRESK_SYM(presk_key_block)
#define presk_key_child PRESK_SYM(presk_key_child)
#define presk_key_draw PRESK_SYM(presk_key_draw)
#define presk_key_part PRESK_SYM(presk_key_part)
#define presk_key_seed PRESK_SYM(presk_key_seed)
#define presk_key_uniform PRESK_SYM(presk_key_uniform)

/* presk_sample.c */
#define presk_penalize PRESK_SYM(presk_penalize)
#define presk_sample PRESK_SYM(presk_sample)
#define presk_sampling_check PRESK_SYM(presk_sampling_check)

/* presk_routine.c */
#define presk_key_load PRESK_SYM(presk_key_load)
#define presk_key_store PRESK_SYM(presk_key_store)
#define presk_routine_key_child PRESK_SYM(presk_routine_key_child)
#define presk_routine_key_seed PRESK_SYM(presk_routine_key_seed)
#define presk_routine_key_split PRESK_SYM(presk_routine_key_split)
#define presk_routine_penalize_bf16 PRESK_SYM(presk_routine_penalize_bf16)
#define presk_routine_penalize_f32 PRESK_SYM(presk_routine_penalize_f32)
#define presk_routine_penalize_f64 PRESK_SYM(presk_routine_penalize_f64)
#define presk_routine_sample_bf16 PRESK_SYM(presk_routine_sample_bf16)
#define presk_routine_sample_f32 PRESK_SYM(presk_routine_sample_f32)
#define presk_routine_sample_f64 PRESK_SYM(presk_routine_sample_f64)
#define presk_routine_uniform PRESK_SYM(presk_routine_uniform)

/* generate/presk_chat.c */
#define presk_messages_add PRESK_SYM(presk_messages_add)
#define presk_messages_free PRESK_SYM(presk_messages_free)
#define presk_messages_read PRESK_SYM(presk_messages_read)
#define presk_messages_write PRESK_SYM(presk_messages_write)

/* generate/presk_generate*.c */
#define presk_document_print PRESK_SYM(presk_document_print)
#define presk_generate PRESK_SYM(presk_generate)
#define presk_options_read PRESK_SYM(presk_options_read)
#define presk_options_usage PRESK_SYM(presk_options_usage)
#define presk_prompt_read PRESK_SYM(presk_prompt_read)

/* generate/presk_tokenizer*.c */
#define presk_bytes_add PRESK_SYM(presk_bytes_add)
#define presk_bytes_free PRESK_SYM(presk_bytes_free)
#define presk_chat_answer PRESK_SYM(presk_chat_answer)
#define presk_chat_begin PRESK_SYM(presk_chat_begin)
#define presk_chat_message PRESK_SYM(presk_chat_message)
#define presk_ids_add PRESK_SYM(presk_ids_add)
#define presk_ids_free PRESK_SYM(presk_ids_free)
#define presk_merge_piece PRESK_SYM(presk_merge_piece)
#define presk_next_piece PRESK_SYM(presk_next_piece)
#define presk_nfc PRESK_SYM(presk_nfc)
#define presk_nfc_classes PRESK_SYM(presk_nfc_classes)
#define presk_nfc_needed PRESK_SYM(presk_nfc_needed)
#define presk_text_check PRESK_SYM(presk_text_check)
#define presk_text_end PRESK_SYM(presk_text_end)
#define presk_tokenizer_chats PRESK_SYM(presk_tokenizer_chats)
#define presk_tokenizer_close PRESK_SYM(presk_tokenizer_close)
#define presk_tokenizer_count PRESK_SYM(presk_tokenizer_count)
#define presk_tokenizer_decode PRESK_SYM(presk_tokenizer_decode)
#define presk_tokenizer_encode PRESK_SYM(presk_tokenizer_encode)
#define presk_tokenizer_new PRESK_SYM(presk_tokenizer_new)
#define presk_tokenizer_open PRESK_SYM(presk_tokenizer_open)
#define presk_tokenizer_stops PRESK_SYM(presk_tokenizer_stops)
#define presk_work_free PRESK_SYM(presk_work_free)

/* presk_writer.c */
#define presk_writer_add PRESK_SYM(presk_writer_add)
#define presk_writer_free PRESK_SYM(presk_writer_free)
#define presk_writer_new PRESK_SYM(presk_writer_new)
#define presk_writer_save PRESK_SYM(presk_writer_save)

#endif /* PRESK_PREFIX */

#endif /* PRESK_NAMES_H */
